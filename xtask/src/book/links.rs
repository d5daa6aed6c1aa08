use std::path::{Component, Path, PathBuf};

/// Replaces links into the tree; those without a replacement stay. Code blocks have no links.
pub fn rewrite_links(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut page = String::with_capacity(text.len());
    for (number, block) in text.split("```").enumerate() {
        if number > 0 {
            page.push_str("```");
        }
        let is_code = number % 2 == 1;
        let mut parts = block.split("](");
        page.push_str(parts.next().unwrap_or_default());
        for part in parts {
            page.push_str("](");
            let (target, after) = part.split_at(part.find(')').unwrap_or(0));
            let is_link = !is_code
                && !target.is_empty()
                && !target.starts_with('#')
                && !target.contains(['\n', ' ', ':']);
            match is_link.then(|| replace(target)).flatten() {
                Some(new) => page.push_str(&new),
                None => page.push_str(target),
            }
            page.push_str(after);
        }
    }
    page
}

/// A link target in this folder, from the root of the tree; `None` if it is outside.
pub fn joined(folder: &Path, target: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

pub fn relative(folder: &Path, file: &Path) -> String {
    let shared = folder
        .components()
        .zip(file.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = folder.components().skip(shared).map(|_| "..".to_owned());
    let down = file
        .components()
        .skip(shared)
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_into_the_source_tree_are_rewritten_except_in_code() {
        let text = "[a](A.md) ![p](p.png)\n```sh\n[b](B.md)\n```\n[c](https://x.org) [d](#here) [e](gone.md#part)";
        let replace = |target: &str| (target != "gone.md#part").then(|| format!("<{target}>"));
        let expected = "[a](<A.md>) ![p](<p.png>)\n```sh\n[b](B.md)\n```\n[c](https://x.org) [d](#here) [e](gone.md#part)";
        assert_eq!(rewrite_links(text, replace), expected);
    }

    #[test]
    fn link_targets_are_resolved_from_the_folder_of_their_page() {
        assert_eq!(
            joined(Path::new("docs/runbooks"), "../A.md"),
            Some("docs/A.md".into())
        );
        assert_eq!(joined(Path::new("docs"), "../../A.md"), None);
        assert_eq!(
            joined(Path::new(""), "docs/decisions/"),
            Some("docs/decisions".into())
        );
    }

    #[test]
    fn a_relative_link_ascends_as_far_as_needed() {
        assert_eq!(
            relative(Path::new("docs/runbooks"), Path::new("docs/A.md")),
            "../A.md"
        );
        assert_eq!(relative(Path::new(""), Path::new("docs/A.md")), "docs/A.md");
        assert_eq!(
            relative(Path::new("docs"), Path::new("index.md")),
            "../index.md"
        );
    }
}
