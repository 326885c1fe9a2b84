package main

import (
	"fmt"
	"os"
	"path/filepath"

	"lehr.dev/sdk/inventory"
)

// list prints the text files of a folder as assets, for "lehr import plugin". It changes
// nothing, and tells of each what Read tells of it.
func list(folder string) int {
	found := inventory.Listing{}
	folder, err := filepath.Abs(folder)
	if err == nil {
		err = add(&found, folder)
	}
	if err == nil {
		err = inventory.Write(os.Stdout, found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "textfile:", err)
		return 1
	}
	return 0
}

func add(found *inventory.Listing, folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		if !entry.Type().IsRegular() {
			found.LeftOut = append(found.LeftOut, inventory.LeftOut{What: path, Why: "it is no regular file"})
			continue
		}
		state := read(path)
		if state.Err != nil {
			return state.Err
		}
		found.Assets = append(found.Assets, inventory.Asset{ID: inventory.ID("text", entry.Name()), Payload: state.Current})
	}
	return err
}
