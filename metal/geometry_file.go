package metal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ReadGeometry reads the JSON list that Write writes. An error about a choice gives the number of
// the choice in the list, counted from 1.
func ReadGeometry(r io.Reader) (Geometry, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var g Geometry
	if err := d.Decode(&g); err != nil {
		return nil, fmt.Errorf("read a geometry: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read a geometry: there is more data after the list")
	}
	for i := range g {
		if err := g[i].check(); err != nil {
			return nil, fmt.Errorf("read a geometry: choice %d: %w", i+1, err)
		}
	}
	return g, nil
}

// Write writes the choices as a sorted JSON list with one line per choice.
func (g Geometry) Write(w io.Writer) error {
	sorted := slices.Clone(g)
	slices.SortStableFunc(sorted, func(a, b Choice) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Kernel, b.Kernel), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.In, b.In), cmp.Compare(a.Out, b.Out), cmp.Compare(a.Inputs, b.Inputs))
	})
	var text bytes.Buffer
	for i := range sorted {
		text.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		line, err := json.Marshal(&sorted[i])
		if err != nil {
			return fmt.Errorf("write a geometry: %w", err)
		}
		text.Write(line)
	}
	if len(sorted) == 0 {
		text.WriteString("[")
	}
	text.WriteString("\n]\n")
	_, err := w.Write(text.Bytes())
	return err
}

// maxGeometryFile is the maximum number of bytes of a geometry file. The file of one device has a
// few kilobytes.
const maxGeometryFile = 16 << 20

// ReadGeometryFile reads a file of choices. If the file does not exist, the geometry is empty.
func ReadGeometryFile(path string) (Geometry, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Geometry{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the geometry file: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	g, err := ReadGeometry(io.LimitReader(f, maxGeometryFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file, or write it again with ingot bench kernels --sweep", path, err)
	}
	return g, nil
}

// WriteFile writes the choices to a file atomically. It makes the file's folder if necessary.
func (g Geometry) WriteFile(path string) error {
	var text bytes.Buffer
	if err := g.Write(&text); err != nil {
		return err
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path+".new", text.Bytes(), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write the geometry file: %w", err)
	}
	return nil
}
