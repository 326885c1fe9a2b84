package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lehr.dev/client"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
)

func (s *session) topCommand() *cobra.Command {
	var every time.Duration
	command := &cobra.Command{
		Use:   "top",
		Short: "Show what moves, fights, fails and waits, by root cause",
		Long: `Shows of each partition, or of the one that is named, what is pushed, what
something else keeps changing back, what fails, and what waits: assets that wait
for the same thing together, those with most behind them first. lehr why ASSET has
the whole chain of one.`,
		Example: `  lehr top
  lehr top --every 2s     # until it is interrupted`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.connectOrRead(command.Context())
			if err != nil {
				return err
			}
			return s.top(command.Context(), c, every)
		},
	}
	command.Flags().DurationVar(&every, "every", 0, "show it again this often, until interrupted")
	return command
}

func (s *session) top(ctx context.Context, c *client.Client, every time.Duration) error {
	for {
		views, err := s.views(ctx, c)
		if err != nil {
			return err
		}
		switch {
		case s.json():
			err = printJSON(s.Out, views)
		default:
			if every > 0 {
				fmt.Fprint(s.Out, clearScreen)
			}
			s.printViews(views)
		}
		if err != nil || every <= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

const clearScreen = "\x1b[H\x1b[2J"

// view is what goes on in a partition.
type view struct {
	Partition string           `json:"partition"`
	Head      string           `json:"head"`
	Mode      string           `json:"mode"`
	States    map[string]int64 `json:"states"`
	// Refused says why the newest sources are not served.
	Refused string   `json:"refused,omitempty"`
	Moving  []moving `json:"moving"`
	Causes  []cause  `json:"causes"`
	// More reports are in these states than were read.
	More bool `json:"more"`
}

type moving struct {
	Asset  string    `json:"asset"`
	Target string    `json:"target"`
	Push   string    `json:"push"`
	Since  time.Time `json:"since"`
}

// cause is why assets are not in sync: what the last one says in the chain of what
// they wait for.
type cause struct {
	Sort intent.Sort `json:"sort"`
	Kind string      `json:"kind"`
	// Assets that it holds up, itself included, sorted. Root is the one that says it;
	// empty: each of them says so of itself.
	Assets []string `json:"assets"`
	Root   string   `json:"root,omitempty"`
	Reason string   `json:"reason"`
	Owner  string   `json:"owner,omitempty"`
	// Since when the first of them says so.
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until,omitempty"`
}

// mostShown reports of each state are read of a partition.
const mostShown = 5000

func (s *session) views(ctx context.Context, c *client.Client) ([]view, error) {
	response, err := c.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return nil, err
	}
	views := []view{}
	for _, p := range response.Partitions {
		if s.partition != "" && s.partition != p.Id {
			continue
		}
		v := view{Partition: p.Id, Head: p.Head, Mode: p.Mode, States: p.States, Moving: []moving{}}
		if p.BlockedBy != nil {
			v.Refused = fmt.Sprintf("candidate %s is %s", p.BlockedBy.Id, p.BlockedBy.State)
		}
		pushing, more, err := reportsIn(ctx, c, p.Id, intent.StatePushing)
		if err != nil {
			return nil, err
		}
		v.More = more
		for _, r := range pushing {
			v.Moving = append(v.Moving, moving{r.Asset, r.Target, r.Push, r.At.AsTime()})
		}
		waiting, more, err := reportsIn(ctx, c, p.Id, intent.StateWaiting)
		if err != nil {
			return nil, err
		}
		v.More = v.More || more
		v.Causes = causes(waiting)
		views = append(views, v)
	}
	if len(views) == 0 && s.partition != "" {
		_, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: s.partition})
		return views, err
	}
	return views, nil
}

func reportsIn(ctx context.Context, c *client.Client, partition string, state intent.State) (all []*apipb.Report, more bool, err error) {
	request := &apipb.ListReportsRequest{Partition: partition, State: string(state)}
	more, err = pages(mostShown, func(most int32) (int, bool, error) {
		request.Limit = most
		response, err := c.Reports.ListReports(ctx, request)
		if err != nil {
			return 0, false, err
		}
		all, request.After = append(all, response.Reports...), response.Next
		return len(response.Reports), response.Next != "", nil
	})
	return all, more, err
}

// causes groups waiting assets by what their chains end with: those that hold up most
// first.
func causes(waiting []*apipb.Report) []cause {
	byAsset := map[string]*apipb.Report{}
	for _, r := range waiting {
		if len(r.Waiting) > 0 {
			byAsset[r.Asset] = r
		}
	}
	type key struct{ kind, reason string }
	grouped := map[key]*cause{}
	roots := map[key]map[string]bool{}
	for _, r := range waiting {
		if len(r.Waiting) == 0 {
			continue
		}
		root := rootOf(r, byAsset)
		w := root.Waiting[0]
		at := key{w.Kind, w.Reason}
		found := grouped[at]
		if found == nil {
			found = &cause{Sort: intent.WaitingKind(w.Kind).Sort(), Kind: w.Kind, Reason: w.Reason, Owner: w.Owner, Since: root.At.AsTime()}
			grouped[at], roots[at] = found, map[string]bool{}
		}
		found.Assets = append(found.Assets, r.Asset)
		roots[at][root.Asset] = true
		if since := root.At.AsTime(); since.Before(found.Since) {
			found.Since = since
		}
		if w.Until != nil {
			if until := w.Until.AsTime(); found.Until == nil || until.Before(*found.Until) {
				found.Until = &until
			}
		}
	}
	list := []cause{}
	for at, c := range grouped {
		slices.Sort(c.Assets)
		if len(roots[at]) == 1 {
			for c.Root = range roots[at] {
			}
		}
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b cause) int {
		return cmp.Or(cmp.Compare(slices.Index(intent.Sorts(), a.Sort), slices.Index(intent.Sorts(), b.Sort)),
			cmp.Compare(len(b.Assets), len(a.Assets)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// rootOf follows what an asset waits for first, as long as that waits too. Of assets
// that wait for each other it is the first by name.
func rootOf(r *apipb.Report, waiting map[string]*apipb.Report) *apipb.Report {
	var chain []*apipb.Report
	for {
		if at := slices.Index(chain, r); at >= 0 {
			return slices.MinFunc(chain[at:], func(a, b *apipb.Report) int { return cmp.Compare(a.Asset, b.Asset) })
		}
		chain = append(chain, r)
		blockers := r.Waiting[0].Blockers
		next := slices.IndexFunc(blockers, func(id string) bool { return waiting[id] != nil && id != r.Asset })
		if next < 0 {
			return r
		}
		r = waiting[blockers[next]]
	}
}

func (s *session) printViews(views []view) {
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprintf(s.Out, "%s: head %s, mode %s: %s\n", v.Partition, cmp.Or(v.Head, "none"), cmp.Or(v.Mode, "none"), cmp.Or(states(v.States), "nothing was looked at"))
		if v.Refused != "" {
			fmt.Fprintf(s.Out, "  the newest sources are not served: %s (lehr get candidates -p %s)\n", plain(v.Refused), v.Partition)
		}
		if len(v.Moving) > 0 {
			fmt.Fprintln(s.Out)
			var rows [][]string
			for _, m := range v.Moving[:min(len(v.Moving), mostRows)] {
				rows = append(rows, []string{m.Asset, m.Target, short(s.now().Sub(m.Since)), m.Push})
			}
			table(s.Out, []string{"MOVING", "TO", "FOR", "PUSH"}, rows)
			s.printRest(len(v.Moving) - mostRows)
		}
		for _, sort := range intent.Sorts() {
			s.printCauses(sort, slices.DeleteFunc(slices.Clone(v.Causes), func(c cause) bool { return c.Sort != sort }))
		}
		if v.More {
			fmt.Fprintf(s.Out, "There are more than %d: lehr get reports --state waiting --limit N lists them.\n", mostShown)
		}
	}
	if len(views) == 0 {
		fmt.Fprintln(s.Out, "No partition is registered.")
	}
}

func (s *session) printCauses(sort intent.Sort, causes []cause) {
	if len(causes) == 0 {
		return
	}
	fmt.Fprintln(s.Out)
	var rows [][]string
	for _, c := range causes[:min(len(causes), mostRows)] {
		rows = append(rows, []string{count(len(c.Assets), "asset"), short(s.now().Sub(c.Since)), c.Kind, c.who(), cut(c.Reason)})
	}
	table(s.Out, []string{strings.ToUpper(string(sort)), "FOR", "CAUSE", "AT", "WHY"}, rows)
	s.printRest(len(causes) - mostRows)
}

// cut shortens what lehr why has whole.
func cut(text string) string {
	const most = 120
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// mostRows of a table are shown.
const mostRows = 20

func (s *session) printRest(rest int) {
	if rest > 0 {
		fmt.Fprintf(s.Out, "… and %d more: -o json has all.\n", rest)
	}
}

// who says it: the root, or the first few that say it of themselves.
func (c cause) who() string {
	if c.Root != "" {
		return c.Root
	}
	const most = 3
	if len(c.Assets) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(c.Assets[:most-1], ", "), len(c.Assets)-most+1)
	}
	return strings.Join(c.Assets, ", ")
}
