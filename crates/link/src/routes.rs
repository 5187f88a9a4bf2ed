//! Shortest paths over links.

use std::collections::VecDeque;

/// For each node and each destination, the number of the link that leads there: the path with the fewest links; of equal ones, the
/// path by the link that is first in the list. A link is the node that it begins at and the node that it ends at; only nodes that
/// forward are passed. `None` where no path leads, and from a node to itself.
pub fn routes(
    nodes: usize,
    links: &[(usize, usize)],
    forwards: impl Fn(usize) -> bool,
) -> Vec<Vec<Option<usize>>> {
    let into = links_into(nodes, links);
    let mut routes = vec![vec![None; nodes]; nodes];
    for destination in 0..nodes {
        let route = toward(destination, (&into, links), &forwards);
        for (from, link) in routes.iter_mut().zip(route) {
            from[destination] = link;
        }
    }
    routes
}

/// For each node, the number of the link that leads to one destination, as [`routes`] has it.
pub fn routes_to(
    destination: usize,
    nodes: usize,
    links: &[(usize, usize)],
    forwards: impl Fn(usize) -> bool,
) -> Vec<Option<usize>> {
    toward(destination, (&links_into(nodes, links), links), &forwards)
}

/// For each node, the links that end there.
fn links_into(nodes: usize, links: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (number, (_, to)) in links.iter().enumerate() {
        into[*to].push(number);
    }
    into
}

fn toward(
    destination: usize,
    (into, links): (&[Vec<usize>], &[(usize, usize)]),
    forwards: &impl Fn(usize) -> bool,
) -> Vec<Option<usize>> {
    let mut route = vec![None; into.len()];
    let mut reached = VecDeque::from([destination]);
    while let Some(at) = reached.pop_front() {
        if at != destination && !forwards(at) {
            continue;
        }
        for &link in &into[at] {
            let (from, _) = links[link];
            if from != destination && route[from].is_none() {
                route[from] = Some(link);
                reached.push_back(from);
            }
        }
    }
    route
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links in both directions.
    fn both(links: &[(usize, usize)]) -> Vec<(usize, usize)> {
        links.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect()
    }

    #[test]
    fn the_shortest_path_wins_and_of_equal_ones_the_first_link() {
        // 0 – 1 – 3 and 0 – 2 – 3, and 3 – 4.
        let links = both(&[(0, 1), (2, 0), (1, 3), (3, 2), (3, 4)]);
        let routes = routes(5, &links, |node| node != 4);
        assert_eq!(routes[0][3], Some(0));
        assert_eq!(routes[3][0], Some(5));
        assert_eq!(routes[2][4], Some(7));
        assert_eq!(routes[4][0], Some(9));
        assert_eq!(routes[0][0], None);
    }

    #[test]
    fn a_host_forwards_nothing() {
        let links = both(&[(0, 1), (1, 2)]);
        assert_eq!(routes(3, &links, |node| node != 1)[0][2], None);
        assert_eq!(routes(3, &links, |_| true)[0][2], Some(0));
    }

    #[test]
    fn the_routes_to_one_destination_are_those_of_all() {
        let links = both(&[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]);
        let all = routes(5, &links, |node| node != 1);
        for destination in 0..5 {
            let own: Vec<_> = all.iter().map(|from| from[destination]).collect();
            assert_eq!(routes_to(destination, 5, &links, |node| node != 1), own);
        }
    }
}
