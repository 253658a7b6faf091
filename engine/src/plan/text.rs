//! A plan as text.

use std::fmt;

use super::Plan;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shared, own) = self.bytes();
        let context = self.context;
        writeln!(f, "context {} positions in {} pages of a layer", context.n_ctx, context.n_pages)?;
        writeln!(f, "buffers {} ({shared} bytes shared, {own} bytes for a sequence)", self.buffers.len())?;
        for (i, buffer) in self.buffers.iter().enumerate() {
            writeln!(f, "  %{i} {} bytes: {}", buffer.bytes, buffer.name)?;
        }
        for step in &self.steps {
            writeln!(f, "step of {} rows, {} outputs", step.class.rows, step.class.outputs)?;
            for launch in &step.launches {
                let args = &launch.call.args;
                let bindings: Vec<_> = args.bindings.iter().map(|b| format!("%{}", b.buffer.0)).collect();
                let (name, grid) = (&launch.call.name, args.grid.0);
                writeln!(f, "  {}: {name} {} grid {grid:?}", launch.label, bindings.join(" "))?;
            }
        }
        Ok(())
    }
}
