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
    #[serde(default)]
    needs_model: bool,
    /// IDs of deep dives in which the default agent takes part.
    #[serde(default)]
    asks: Vec<String>,
    /// IDs of steps for the agent `writer`.
    #[serde(default)]
    writes: Vec<String>,
    #[serde(default)]
    asks_for: Vec<WantedForm>,
    steps: Vec<StepForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedForm {
    label: String,
    field: String,
    step: StepForm,
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
    /// True if the workflow is of little use without a language model.
    pub needs_model: bool,
    /// Steps that belong at the end of `steps` if a person chooses a value for one of their fields.
    pub asks_for: Vec<WantedValue>,
}

/// An optional step of a recipe, and the field whose value a person chooses.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct WantedValue {
    /// Label of the field.
    #[schema(example = "Post the summary in")]
    pub label: String,
    /// Name of the field in `step`.
    #[schema(example = "channel_id")]
    pub field: String,
    pub step: Step,
}

/// A recipe, and the steps in which agents take part.
struct Recipe {
    name: String,
    description: String,
    needs_model: bool,
    asks: Vec<String>,
    writes: Vec<String>,
    asks_for: Vec<WantedValue>,
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
    file.recipes.into_iter().map(Recipe::read).collect()
}

impl Recipe {
    fn read(form: RecipeForm) -> Result<Self, String> {
        let steps = |forms: &[StepForm]| parse_steps(forms).map_err(|e| e.to_string());
        let all = steps(&form.steps)?;
        let mut asks_for = Vec::with_capacity(form.asks_for.len());
        for wanted in form.asks_for {
            // The step can refer to the outputs of the others.
            let with_others = [form.steps.as_slice(), &[wanted.step]].concat();
            let step = steps(&with_others)?.pop().ok_or("a step is missing")?;
            asks_for.push(WantedValue {
                label: wanted.label,
                field: wanted.field,
                step,
            });
        }
        Ok(Self {
            steps: all,
            name: form.name,
            description: form.description,
            needs_model: form.needs_model,
            asks: form.asks,
            writes: form.writes,
            asks_for,
        })
    }

    fn with_agents(&self, main: AgentId, writer: Option<AgentId>) -> WorkflowRecipe {
        let writer = writer.filter(|writer| *writer != main && !self.writes.is_empty());
        let mut steps = self.steps.clone();
        for step in &mut steps {
            match &mut step.work {
                StepWork::Fork(fork) if self.asks.contains(&step.id) => fork.agent_ids = vec![main],
                StepWork::Agent(agent) if self.writes.contains(&step.id) => agent.agent_id = writer,
                _ => {}
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
            needs_model: self.needs_model,
            asks_for: self.asks_for.clone(),
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
            let find = |id: &String| recipe.steps.iter().find(|step| step.id == *id);
            let is_fork = |id| find(id).is_some_and(|step| matches!(step.work, StepWork::Fork(_)));
            let is_agent =
                |id| find(id).is_some_and(|step| matches!(step.work, StepWork::Agent(_)));
            assert!(recipe.asks.iter().all(is_fork), "{}", recipe.name);
            assert!(recipe.writes.iter().all(is_agent), "{}", recipe.name);
            let needs_model = ["review", "alert-triage"].contains(&&*recipe.name);
            assert_eq!(recipe.needs_model, needs_model, "{}", recipe.name);
        }
    }

    #[test]
    fn the_default_agent_corrects_what_a_writer_writes() {
        let (main, writer) = (AgentId::new(), AgentId::new());
        for (found, agents, writes) in [
            (None, vec![], None),
            (Some(main), vec![], None),
            (Some(writer), vec![writer], Some(writer)),
        ] {
            let recipes = all(main, found);
            let review = recipes.iter().find(|recipe| recipe.name == "review");
            let review = review.unwrap();
            assert_eq!(review.agents, agents);
            let agents = review.steps.iter().filter_map(|step| match &step.work {
                StepWork::Agent(agent) => Some(agent.agent_id),
                _ => None,
            });
            assert_eq!(agents.collect::<Vec<_>>(), [writes, None]);
        }
    }
}
