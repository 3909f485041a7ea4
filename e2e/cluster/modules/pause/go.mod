module sandbox.opensandbox.io/cluster/pause

go 1.25.0
