//! That what is not asked has the answer of something that is.

use super::{
    COMPONENTS, MAPPED, NODES,
    hands::{As, Hands, Kernel, Ours},
    places::Places,
    questions::{Asking, Question, every_question, questions},
    reach::Shape,
    trees::{Node, all_trees, paths, swap, swapped, trees},
    world::{World, machine},
};
use crate::{
    kernel::{Powers, powers},
    ours::Settings,
};
use pathwalk::Result;
use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    thread,
};

fn texts(components: usize) -> Vec<CString> {
    let text = |path: String| CString::new(path).expect("paths have no NUL");
    paths(components).into_iter().map(text).collect()
}

/// Who asks what about which path in which tree.
type Asked = (Vec<Node>, CString, Question, As);

/// The answers to everything, of the kernel where it can be asked.
fn answers(nodes: usize, components: usize) -> HashMap<Asked, Result<u64>> {
    let paths = texts(components);
    let asking = move || {
        let settings =
            if powers() == Powers::Root { Settings::running() } else { Settings::DEFAULT };
        let kernel: Box<dyn Hands> = match powers() == Powers::Root {
            true => Box::new(Kernel::new()),
            false => Box::new(Ours::new(&machine(settings))),
        };
        let mut world = World::new(settings, kernel);
        let mut answers = HashMap::new();
        for tree in all_trees(nodes, nodes) {
            let every = every_question(&Shape::new(&tree), &paths);
            world.ask(&tree, &every, |who, &Asking { path, question, .. }, answer| {
                answers.insert((sorted(&tree), path.into(), question, who), answer);
            });
            assert!(world.done.found.is_empty(), "{}", world.done.found[0]);
        }
        answers
    };
    // The thread's root becomes another.
    thread::spawn(asking).join().expect("the two agree")
}

fn sorted(tree: &[Node]) -> Vec<Node> {
    let mut tree = tree.to_vec();
    tree.sort();
    tree
}

/// The tree without the leaves that do not matter, and without those that are leaves then.
fn least(tree: &[Node], path: &CString, question: Question) -> Vec<Node> {
    let mut tree = tree.to_vec();
    loop {
        let shape = Shape::new(&tree);
        let every = every_question(&shape, std::slice::from_ref(path));
        let asking = every.into_iter().find(|asking| asking.question == question);
        let past = asking.expect("it is a question").looks_past(&shape, shape.leaves());
        if past == 0 {
            return tree;
        }
        let mut number = 0;
        tree.retain(|_| {
            number += 1;
            past >> number & 1 == 0
        });
    }
}

#[test]
fn what_is_not_asked_is_answered_by_what_is_asked() {
    // Of three nodes too it was found so, with one component; that takes a minute.
    let (nodes, components) = (2, 2);
    let answers = answers(nodes, components);
    let mut kept = HashSet::new();
    for ((tree, path, question, who), answer) in &answers {
        let least = sorted(&least(tree, path, *question));
        let same = (least, path.clone(), *question, *who);
        assert_eq!(answers[&same], *answer, "{tree:?} {path:?} {question:?} {who:?}");
        kept.insert(same);
    }
    // Those kept are those that are asked, but for twins.
    let paths = texts(components);
    let trees = all_trees(nodes, nodes);
    let asked = trees.iter().map(|tree| questions(&Shape::new(tree), &paths).len());
    assert_eq!(kept.len(), 2 * asked.sum::<usize>());
    assert!(kept.len() < answers.len() / 2, "{} of {}", kept.len(), answers.len());
    println!("{nodes} nodes: {} of {} questions are asked", kept.len(), answers.len());
    twins_have_twin_answers(&answers);
}

fn twins_have_twin_answers(answers: &HashMap<Asked, Result<u64>>) {
    for ((tree, path, question, who), answer) in answers {
        let twin = sorted(&tree.iter().map(swapped).collect::<Vec<_>>());
        let path = CString::new(swap(path.to_str().expect("paths are text")));
        let question = match *question {
            Question::RenameTo(first) => Question::RenameTo(1 - first),
            question => question,
        };
        let known_as = |what: u64| {
            let node = tree.iter().find(|node| u64::from(Places::group(&node.path)) == what >> 48);
            let group = node.map_or(what >> 48, |node| Places::group(&swapped(node).path).into());
            group << 48 | what & ((1 << 48) - 1)
        };
        let twin = (twin, path.expect("paths have no NUL"), question, *who);
        assert_eq!(answers[&twin], answer.map(known_as), "{tree:?} {twin:?}");
    }
}

#[test]
fn five_nodes_are_few_enough() {
    // Of every 400th tree, and of the paths of three components: all would take a minute.
    let paths = texts(COMPONENTS - 1);
    let (mut asked, mut all) = (0, 0);
    for tree in trees(NODES, MAPPED).iter().step_by(400) {
        let shape = Shape::new(tree);
        asked += questions(&shape, &paths).len();
        all += every_question(&shape, &paths).len();
    }
    assert!(asked * 10 < all, "{asked} of {all}");
}
