//! Workflow recipes, which are read from `seeds/workflow-recipes.yaml`. A recipe is not a workflow, but can be posted to create one.

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
    /// IDs of steps in which the default agent takes part.
    #[serde(default)]
    asks: Vec<String>,
    /// The steps of `asks` that the agent `writer` starts.
    #[serde(default)]
    writes: Vec<String>,
    steps: Vec<StepForm>,
}

constant! { pub RecipeObject = "workflow_recipe" }

/// Fields of `POST /v1/workflows`, ready to be posted.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct WorkflowRecipe {
    #[schema(inline)]
    pub object: RecipeObject,
    pub name: String,
    /// Description of the workflow, including how it is started.
    pub description: String,
    pub default_agent_id: AgentId,
    pub agents: Vec<AgentId>,
    /// Always null.
    pub on_message: Option<OnMessage>,
    pub steps: Vec<Step>,
}

/// A recipe, and the steps in which agents take part.
struct Recipe {
    name: String,
    description: String,
    asks: Vec<String>,
    writes: Vec<String>,
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
                writes: form.writes,
            })
        })
        .collect()
}

impl Recipe {
    fn with_agents(&self, main: AgentId, writer: Option<AgentId>) -> WorkflowRecipe {
        let writer = writer.filter(|writer| *writer != main && !self.writes.is_empty());
        let mut steps = self.steps.clone();
        for step in &mut steps {
            if let StepWork::Fork(fork) = &mut step.work
                && self.asks.contains(&step.id)
            {
                let first = writer.filter(|_| self.writes.contains(&step.id));
                fork.agent_ids = first.into_iter().chain([main]).collect();
            }
        }
        WorkflowRecipe {
            object: RecipeObject,
            name: self.name.clone(),
            description: self.description.clone(),
            default_agent_id: main,
            agents: writer.into_iter().collect(),
            on_message: None,
            steps,
        }
    }
}

/// Handle of the agent that writes.
pub const WRITER: &str = "writer";

/// All recipes in file order, for a workspace with this default agent and, optionally, a writer agent.
pub fn all(main: AgentId, writer: Option<AgentId>) -> Vec<WorkflowRecipe> {
    RECIPES
        .iter()
        .map(|recipe| recipe.with_agents(main, writer))
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
            assert!(recipe.writes.iter().all(|id| recipe.asks.contains(id)));
        }
    }

    #[test]
    fn the_default_agent_reviews_what_a_writer_writes() {
        let (main, writer) = (AgentId::new(), AgentId::new());
        for (found, agents, collaborate) in [
            (None, vec![], vec![main]),
            (Some(main), vec![], vec![main]),
            (Some(writer), vec![writer], vec![writer, main]),
        ] {
            let recipes = all(main, found);
            let review = recipes.iter().find(|recipe| recipe.name == "review");
            let review = review.unwrap();
            assert_eq!(review.agents, agents);
            let StepWork::Fork(fork) = &review.steps[0].work else {
                panic!("{:?}", review.steps[0]);
            };
            assert_eq!(fork.agent_ids, collaborate);
        }
    }
}
