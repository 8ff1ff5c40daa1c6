use super::kind::MappedPath;
use super::map::{Mount, PathMap, Resolution, rebase};

impl<A: MappedPath, B: MappedPath> PathMap<A, B> {
    /// Composes two maps into one from this map's outside to `inner`'s inside, such as host to VM and VM to guest.
    ///
    /// The composed map maps exactly as the two maps do in sequence. A path is writable through the composed map only
    /// if it is writable through both.
    #[must_use]
    pub fn then<C: MappedPath>(&self, inner: &PathMap<B, C>) -> PathMap<A, C> {
        let mut mounts: Vec<Mount<A, C>> = Vec::new();
        let mut masked: Vec<C> = inner.masked.clone();
        for step in &inner.mounts {
            match self.resolve(&step.from) {
                Resolution::Mounted(base) => match rebase(&step.from, &base.to, &base.from) {
                    Ok(from) => {
                        let access = base.access.intersection(step.access);
                        mounts.push(Mount { from, to: step.to.clone(), access });
                    }
                    Err(_) => masked.push(step.to.clone()),
                },
                // The step has no counterpart outside, but it still covers this part of a wider mount.
                Resolution::Masked | Resolution::Unmapped => masked.push(step.to.clone()),
            }
            // Mounts of `self` below the step become separate mounts, unless another mount of `inner` hides them.
            for deeper in self.mounts.iter().filter(|m| is_strictly_below(&m.to, &step.from)) {
                if let Ok(to) = rebase(&deeper.to, &step.from, &step.to)
                    && inner.is_visible_through(&to, step)
                {
                    let access = deeper.access.intersection(step.access);
                    mounts.push(Mount { from: deeper.from.clone(), to, access });
                }
            }
            for masked_path in self.masked.iter().filter(|masked_path| is_strictly_below(*masked_path, &step.from)) {
                if let Ok(to) = rebase(masked_path, &step.from, &step.to)
                    && inner.is_visible_through(&to, step)
                {
                    masked.push(to);
                }
            }
        }
        PathMap { mounts, masked, names: Vec::new() }
    }
}

fn is_strictly_below<P: MappedPath>(path: &P, ancestor: &P) -> bool {
    path.below(ancestor).is_some_and(|mut rest| rest.next().is_some())
}
