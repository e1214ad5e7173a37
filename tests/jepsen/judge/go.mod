// The judge of `make jepsen`: what was recorded, held against models by Porcupine.
module baton.jepsen/judge

go 1.26.0

require github.com/anishathalye/porcupine v1.3.1
