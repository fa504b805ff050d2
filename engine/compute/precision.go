package compute

// Precision says how products of quantised weights round their activations.
type Precision int

const (
	// High keeps 16 bits of each activation.
	High Precision = iota
	// Fast keeps 8 bits. Backends that gain nothing by fewer bits treat it as High.
	Fast
)

// String returns the name of the precision in settings.
func (p Precision) String() string {
	if p == Fast {
		return "fast"
	}
	return "high"
}
