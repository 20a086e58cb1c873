module bench/nats

go 1.26.0

require (
	bench/harness v0.0.0
	github.com/nats-io/nats-server/v2 v2.15.2
)

replace bench/harness => ../harness/go
