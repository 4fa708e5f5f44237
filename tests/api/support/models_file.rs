//! A separate model table for one test.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

/// A file for `MODELS_FILE`, removed on drop.
pub struct ModelsFile(PathBuf);

impl ModelsFile {
    /// Sets the default model's context window in tokens, and whether the model supports JSON schemas.
    pub fn with(context_window: u64, json_schema: bool) -> Self {
        Self::of(&format!(
            "context_window = {context_window}\njson_schema = {json_schema}\n"
        ))
    }

    /// Sets the table entry of the tests' default model.
    pub fn of(facts: &str) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("openvibe_models_{}_{n}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        let table = format!("[models.\"claude-sonnet-4-5\"]\n{facts}");
        std::fs::write(&path, table).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for ModelsFile {
    fn drop(&mut self) {
        // If this fails, the file is left behind; its name contains the process ID.
        drop(std::fs::remove_file(&self.0));
    }
}
