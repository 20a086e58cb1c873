module bench/quamina

go 1.22.0

require (
	bench/harness v0.0.0
	quamina.net/go/quamina/v2 v2.0.2
)

replace bench/harness => ../harness/go
