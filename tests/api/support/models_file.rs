//! A model table of a test's own.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

/// A file for `MODELS_FILE`, which goes with the test.
pub struct ModelsFile(PathBuf);

impl ModelsFile {
    /// In which the tests' default model has a window of so many tokens, and can be held to a JSON schema or not.
    pub fn with(context_window: u64, json_schema: bool) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("openvibe_models_{}_{n}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        let table = format!(
            "[models.\"claude-sonnet-4-5\"]\ncontext_window = {context_window}\njson_schema = {json_schema}\n"
        );
        std::fs::write(&path, table).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for ModelsFile {
    fn drop(&mut self) {
        // Left behind at worst: its name says whose it was.
        drop(std::fs::remove_file(&self.0));
    }
}
