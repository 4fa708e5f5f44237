//! Recipes: `seeds/workflow-recipes.yaml`. A recipe is not a workflow; it can be posted to create one.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::{
    definition::{OnMessage, Step, StepWork},
    form::{StepForm, parse_steps},
};
use crate::{ids::AgentId, text_enum::constant};

#[derive(Deserialize)]
struct File {
    recipes: Vec<RecipeForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeForm {
    name: String,
    description: String,
    /// Steps in which the default agent takes part.
    #[serde(default)]
    asks: Vec<String>,
    steps: Vec<StepForm>,
}

constant! { pub RecipeObject = "workflow_recipe" }

/// Fields of `POST /v1/workflows`, filled in.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct WorkflowRecipe {
    #[schema(inline)]
    pub object: RecipeObject,
    pub name: String,
    /// It also says how the workflow is started.
    pub description: String,
    pub default_agent_id: AgentId,
    pub agents: Vec<AgentId>,
    /// Always null.
    pub on_message: Option<OnMessage>,
    pub steps: Vec<Step>,
}

/// A recipe, and the steps in which the default agent takes part.
struct Recipe {
    name: String,
    description: String,
    asks: Vec<String>,
    steps: Vec<Step>,
}

static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
    parse(include_str!("../../seeds/workflow-recipes.yaml")).unwrap_or_else(|e| {
        tracing::error!(
            error = e,
            "seeds/workflow-recipes.yaml is invalid; no recipes are available"
        );
        Vec::new()
    })
});

fn parse(text: &str) -> Result<Vec<Recipe>, String> {
    let file: File = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
    file.recipes
        .into_iter()
        .map(|form| {
            Ok(Recipe {
                steps: parse_steps(&form.steps).map_err(|e| e.to_string())?,
                name: form.name,
                description: form.description,
                asks: form.asks,
            })
        })
        .collect()
}

impl Recipe {
    fn with_agent(&self, agent: AgentId) -> WorkflowRecipe {
        let mut steps = self.steps.clone();
        for step in &mut steps {
            if let StepWork::Fork(fork) = &mut step.work
                && self.asks.contains(&step.id)
            {
                fork.agent_ids = vec![agent];
            }
        }
        WorkflowRecipe {
            object: RecipeObject,
            name: self.name.clone(),
            description: self.description.clone(),
            default_agent_id: agent,
            agents: Vec::new(),
            on_message: None,
            steps,
        }
    }
}

/// All recipes in file order, for a workspace with this default agent.
pub fn all(agent: AgentId) -> Vec<WorkflowRecipe> {
    RECIPES
        .iter()
        .map(|recipe| recipe.with_agent(agent))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_recipes_are_valid_and_each_ends_with_a_message_or_a_resolution() {
        let recipes = parse(include_str!("../../seeds/workflow-recipes.yaml")).unwrap();
        assert_eq!(recipes.len(), 5);
        for recipe in recipes {
            let last = recipe.steps.last().unwrap();
            assert!(
                matches!(last.work, StepWork::Output(_) | StepWork::Fork(_)),
                "{}",
                recipe.name
            );
            for id in &recipe.asks {
                let step = recipe.steps.iter().find(|step| step.id == *id);
                assert!(step.is_some_and(|step| matches!(step.work, StepWork::Fork(_))));
            }
        }
    }
}
