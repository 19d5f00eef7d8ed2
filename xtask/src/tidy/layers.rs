//! Crates stand in layers, and arrows only point down.

use std::error::Error;
use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

use super::Breach;

/// The layers, lowest first. A crate may depend on crates of lower layers only.
const LAYERS: [&[&str]; 6] = [
    &["pathwalk-sync", "pathwalk-abi", "pathwalk-inside"],
    &["pathwalk-core"],
    &["pathwalk-hostfs", "pathwalk-memfs", "pathwalk-procfs"],
    &["pathwalk"],
    &["pathwalk-bench", "pathwalk-check", "pathwalk-run"],
    &["pathwalk-cli"],
];

/// Crates that stand apart: they depend on no layer and no layer on them.
const APART: [&str; 1] = ["xtask"];

/// The crate that makes no system call.
const CORE: &str = "pathwalk-core";

/// Crates by which one asks the operating system.
const SYSTEM: [&str; 6] = ["libc", "linux-raw-sys", "nix", "rustix", "syscalls", "tempfile"];

/// A crate of the workspace and what it depends on.
pub(super) struct Manifest {
    /// Of its `Cargo.toml`, relative to the top.
    path: String,
    text: String,
    name: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    /// Of the library, not only of its tests and its build script.
    normal: bool,
}

impl Manifest {
    pub(super) fn read_all(root: &Path) -> Result<Vec<Self>, Box<dyn Error>> {
        let metadata = MetadataCommand::new().current_dir(root).no_deps().exec()?;
        let mut manifests = Vec::new();
        for package in metadata.packages {
            let path = package.manifest_path.strip_prefix(&metadata.workspace_root)?;
            let dependencies = package.dependencies.into_iter().map(|dependency| Dependency {
                normal: dependency.kind == DependencyKind::Normal,
                name: dependency.name,
            });
            manifests.push(Self {
                path: path.to_string(),
                text: fs::read_to_string(&package.manifest_path)?,
                name: package.name.to_string(),
                dependencies: dependencies.collect(),
            });
        }
        Ok(manifests)
    }

    fn breach(&self, dependency: &Dependency, what: String) -> Breach {
        let names = |line: &str| {
            let rest = line.trim_start().strip_prefix(&dependency.name);
            rest.is_some_and(|rest| rest.starts_with([' ', '=', '.']))
        };
        // A renamed dependency does not begin its line.
        let index = self.text.lines().position(names).unwrap_or(0);
        Breach::new(&self.path, index + 1, what)
    }
}

/// A crate depends on crates of lower layers only, its tests too.
pub(super) fn arrows_point_down(manifests: &[Manifest]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for manifest in manifests {
        let apart = APART.contains(&&*manifest.name);
        let layer = layer_of(&manifest.name);
        if layer.is_none() && !apart {
            let what = format!(
                "{} is in no layer: add it to LAYERS in xtask/src/tidy/layers.rs",
                manifest.name
            );
            breaches.push(Breach::new(&manifest.path, 1, what));
        }

        let ours = |dependency: &&Dependency| {
            manifests.iter().any(|manifest| manifest.name == dependency.name)
        };
        for dependency in manifest.dependencies.iter().filter(ours) {
            let down = match (layer, layer_of(&dependency.name)) {
                (Some(layer), Some(below)) => below < layer,
                _ => false,
            };
            if !down {
                let what = format!(
                    "{} may not depend on {}, which is not in a lower layer: move what needs it \
                     up, a test into the tests of the upper crate",
                    manifest.name, dependency.name
                );
                breaches.push(manifest.breach(dependency, what));
            }
        }
    }
    breaches
}

/// The core depends on no crate by which one asks the operating system.
pub(super) fn core_depends_on_no_system(manifests: &[Manifest]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for manifest in manifests.iter().filter(|manifest| manifest.name == CORE) {
        for dependency in &manifest.dependencies {
            if dependency.normal && SYSTEM.contains(&&*dependency.name) {
                let what = format!(
                    "{CORE} makes no system call: take numbers from pathwalk-abi and let a file \
                     system use {}",
                    dependency.name
                );
                breaches.push(manifest.breach(dependency, what));
            }
        }
    }
    breaches
}

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    fn manifest(name: &str, dependencies: &[(&str, DependencyKind)]) -> Manifest {
        let mut text = String::from("[package]\n[dependencies]\n");
        for (name, _) in dependencies {
            text.push_str(&format!("{name} = {{ workspace = true }}\n"));
        }
        let dependencies = dependencies.iter().map(|&(name, kind)| Dependency {
            name: name.to_owned(),
            normal: kind == DependencyKind::Normal,
        });
        let path = format!("{name}/Cargo.toml");
        Manifest { path, text, name: name.to_owned(), dependencies: dependencies.collect() }
    }

    use DependencyKind::{Development, Normal};

    #[test]
    fn an_arrow_up_or_sideways_is_a_breach() {
        let manifests = [
            manifest("pathwalk-abi", &[("pathwalk-sync", Normal)]),
            manifest("pathwalk-sync", &[]),
            manifest("pathwalk-core", &[("pathwalk-abi", Normal), ("pathwalk-memfs", Development)]),
            manifest("pathwalk-memfs", &[("pathwalk-core", Normal), ("rustix", Normal)]),
            manifest("pathwalk-cli", &[("xtask", Normal)]),
            manifest("xtask", &[("pathwalk-abi", Normal), ("clap", Normal)]),
        ];
        assert_eq!(
            places(arrows_point_down(&manifests)),
            [
                "pathwalk-abi/Cargo.toml:3",
                "pathwalk-core/Cargo.toml:4",
                "pathwalk-cli/Cargo.toml:3",
                "xtask/Cargo.toml:3"
            ]
        );
    }

    #[test]
    fn a_crate_without_a_layer_is_a_breach() {
        let manifests = [manifest("pathwalk-newfs", &[])];
        assert_eq!(places(arrows_point_down(&manifests)), ["pathwalk-newfs/Cargo.toml:1"]);
    }

    #[test]
    fn a_core_that_asks_the_system_is_a_breach() {
        let manifests = [
            manifest("pathwalk-core", &[("tempfile", Development), ("rustix", Normal)]),
            manifest("pathwalk-sync", &[("rustix", Normal)]),
        ];
        assert_eq!(places(core_depends_on_no_system(&manifests)), ["pathwalk-core/Cargo.toml:4"]);
    }
}
