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
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (number, (_, to)) in links.iter().enumerate() {
        into[*to].push(number);
    }
    let mut routes = vec![vec![None; nodes]; nodes];
    let destinations = 0..nodes;
    for destination in destinations {
        let mut reached = VecDeque::from([destination]);
        while let Some(at) = reached.pop_front() {
            if at != destination && !forwards(at) {
                continue;
            }
            for &link in &into[at] {
                let (from, _) = links[link];
                if from != destination && routes[from][destination].is_none() {
                    routes[from][destination] = Some(link);
                    reached.push_back(from);
                }
            }
        }
    }
    routes
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
}
