package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ingot-run/ingot/bench"
)

// WriteSpeed writes a Markdown page about the speed of this machine: the diagnosis, the measured
// figures and the tuning of the GPU.
func (d *Diagnosis) WriteSpeed(w io.Writer, records []bench.Record) error {
	var machine, figures, data, tuning bytes.Buffer
	list := json.NewEncoder(&data)
	list.SetIndent("", " ")
	err := errors.Join(d.Write(&machine), bench.WriteTable(&figures, records), list.Encode(records), d.WriteTuning(&tuning))
	if err != nil {
		return err
	}
	text := fmt.Sprintf("# Speed of Ingot\n\n## Machine\n\n```\n%s```\n\n## Figures\n\n```\n%s```\n", &machine, &figures)
	if tuning.Len() > 0 {
		text += fmt.Sprintf("\n## Kernels\n\n```\n%s```\n", &tuning)
	}
	_, err = fmt.Fprintf(w, "%s\n## Data\n\n```json\n%s```\n", text, &data)
	return err
}
