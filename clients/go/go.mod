module example.com/baton-sidecar-go

go 1.24.0

require golang.org/x/sys v0.35.0
