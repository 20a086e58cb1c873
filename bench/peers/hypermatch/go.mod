module bench/hypermatch

go 1.21

require (
	bench/harness v0.0.0
	github.com/SchwarzIT/hypermatch v1.0.2
)

replace bench/harness => ../harness/go
