//! Links, addresses, routes and queue disciplines over rtnetlink.
