// Command client lists the assets of partition hello, waits for its incarnation,
// and exports it: an example of package client, shown in docs/use/programs.md.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

func main() {
	ctx := context.Background()
	me := client.Actor{Name: "example", Origin: "program"} // for the audit
	c, err := client.Discover(".lehr/lehr.db", me)
	if server := os.Getenv("LEHR_SERVER"); server != "" {
		c, err = client.Dial(server, os.Getenv("LEHR_TOKEN"), me), nil
	}
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// Pages of one incarnation, however much is published meanwhile.
	request := &apipb.ListAssetsRequest{Partition: "hello", Filter: `type == "Command"`, Limit: 1}
	for {
		page, err := c.Assets.ListAssets(ctx, request)
		if err != nil {
			log.Fatal(err)
		}
		for _, asset := range page.Assets {
			fmt.Println(page.Incarnation, asset.Id)
		}
		if page.Next == "" {
			break
		}
		request.After, request.Incarnation = page.Next, page.Incarnation
	}

	// Errors have a kind, and say what to do.
	_, err = c.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: "hello", Asset: "greeting/frensh"})
	fmt.Println(client.IsKind(err, client.NotFound), err)

	// All of it first, then what changes: the error of the function ends it.
	enough := fmt.Errorf("that was enough")
	err = c.WatchAssets(ctx, &apipb.WatchAssetsRequest{Partition: "hello"}, func(m *apipb.WatchAssetsResponse) error {
		fmt.Println(m.Incarnation, len(m.Assets), "assets", "complete:", m.Complete)
		return enough
	})
	if err != enough {
		log.Fatal(err)
	}

	file, err := os.Create("hello.jsonl")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	exported, err := c.Export(ctx, &apipb.ExportIncarnationRequest{Partition: "hello"}, client.ExportJSON, file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("exported", exported.Count, "assets of", exported.Incarnation)
}
