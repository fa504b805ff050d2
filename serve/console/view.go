package console

import (
	"fmt"
	"time"
)

// Frame has the parts that all pages show around their content.
type Frame struct {
	Title    string
	Section  Section // section that the page belongs to
	Version  string  // version of the program
	KeyName  string  // name of the API key that the person signed in with; empty if the server has no keys
	Error    string  // error of the person's last action; empty if it succeeded
	HasStore bool    // the server stores files and batches
}

// Section is an entry of the navigation.
type Section string

// The sections.
const (
	OverviewSection Section = "overview"
	BatchesSection  Section = "batches"
	TrySection      Section = "try"
	NoSection       Section = "" // the page has no navigation
)

// Overview is the first page.
type Overview struct {
	Frame
	Models     []Model
	Workers    []Worker
	Active     []Batch // batches that have not ended
	Throughput Chart
}

func (Overview) template() string { return "overview.html" }

// Model is a model that requests can name.
type Model struct {
	Alias, Name string
	Context     int // maximum number of tokens of prompt and answer together; 0 if unknown
}

// Worker is a process that answers requests.
type Worker struct {
	Name, Model, Device string
	Rows                int // number of rows in its engine
	TokensPerSecond     float64
	Started             time.Time
	Lost                bool
}

// Batches is a page of the list of batches.
type Batches struct {
	Frame
	Batches []Batch
	Next    string // id of the last batch on this page, after which the next page begins; empty on the last page
	Later   bool   // this page is not the first
}

func (Batches) template() string { return "batches.html" }

// Batch is a batch, in a table or on its own page.
type Batch struct {
	ID, Status, Model, Endpoint string
	Total, Completed, Failed    int
	RowsPerSecond               float64
	TokensPerSecond             float64
	Created                     time.Time
	Left                        time.Duration // estimated time until the end; 0 if unknown
	Ended                       bool
	Cancelling                  bool
}

// Finished returns the number of rows with a result.
func (b Batch) Finished() int { return b.Completed + b.Failed }

// Percent returns the percentage of rows with a result.
func (b Batch) Percent() int {
	if b.Total == 0 {
		return 0
	}
	return 100 * b.Finished() / b.Total
}

// LeftText returns the estimated time until the end as text; empty if it is unknown.
func (b Batch) LeftText() string {
	minutes := int(b.Left.Round(time.Minute).Minutes())
	switch {
	case b.Left == 0:
		return ""
	case b.Left < time.Minute:
		return fmt.Sprintf("%d s left", int(b.Left.Seconds())+1)
	case minutes < 60:
		return fmt.Sprintf("%d min left", minutes)
	default:
		return fmt.Sprintf("%d h %d min left", minutes/60, minutes%60)
	}
}

// BatchPage is the page of one batch.
type BatchPage struct {
	Frame
	Batch
	Times    []Moment
	Files    []File
	Faults   []Fault
	Metadata map[string]string
}

func (BatchPage) template() string { return "batch.html" }

// Moment is a state of a batch with its time.
type Moment struct {
	Name string
	At   time.Time
}

// File is a downloadable file of a batch.
type File struct{ ID, Kind string }

// Fault is one reason why a batch failed.
type Fault struct {
	Line    int // line of the input file; 0 for the whole batch
	Message string
}

// Try is the page with the prompt form and the answer.
type Try struct {
	Frame
	Models []Model
	Values TryValues
	Answer string
	Asked  bool // the form was sent, so there is an answer or error
}

func (Try) template() string { return "try.html" }

// TryValues has the values of the form's fields.
type TryValues struct {
	Model, System, Prompt, MaxTokens, Temperature string
}

// SignIn is the page that asks for an API key.
type SignIn struct {
	Frame
	Next string // path of the page to show after signing in
}

func (SignIn) template() string { return "signin.html" }

// Message is a page that shows only an error.
type Message struct{ Frame }

func (Message) template() string { return "message.html" }
