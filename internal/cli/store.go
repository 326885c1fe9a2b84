package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// StorePlace is a file, unless a database is named.
type StorePlace struct {
	Store, Database string
}

// Keeping is what is done to a store as a whole, beside its servers or without.
type Keeping struct {
	Adopt  func(ctx context.Context, place StorePlace, reason string, beyond uint64, actor intent.Actor) (Adopted, error)
	Verify func(ctx context.Context, place StorePlace) (Verified, error)
	// Backup writes a new file.
	Backup func(ctx context.Context, store, target string) (Verified, error)
	// Restore returns the name that the store before has now; "": there was none.
	Restore func(ctx context.Context, backup, store string) (aside string, verified Verified, err error)
}

// Adopted is what an adoption found and did.
type Adopted struct {
	Generation uint64 `json:"generation"`
	// Why it was stopped, if it was, and since when.
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"`
	// Lost commits are known to be missing; Unsure: there may be more.
	Lost       int64              `json:"lost"`
	Unsure     bool               `json:"unsure"`
	Partitions []AdoptedPartition `json:"partitions"`
	Doubted    int64              `json:"doubted"`
	Voided     int64              `json:"voided"`
}

// AdoptedPartition goes on from these numbers.
type AdoptedPartition struct {
	ID    string `json:"id"`
	Epoch uint64 `json:"epoch"`
	Head  string `json:"head"`
}

// Verified counts what is as it was written.
type Verified struct {
	Partitions   int `json:"partitions"`
	Incarnations int `json:"incarnations"`
	Bodies       int `json:"bodies"`
	Blobs        int `json:"blobs"`
	Candidates   int `json:"candidates"`
	Documents    int `json:"documents"`
	AuditRecords int `json:"auditRecords"`
}

func (v Verified) String() string {
	return fmt.Sprintf("%s, %s, %s, %s", count(v.Partitions, "partition"), count(v.Incarnations, "incarnation"),
		bodies(v.Bodies), count(v.AuditRecords, "audit record"))
}

func bodies(n int) string { return count(n, "piece") + " of content" }

func (s *session) storeCommand() *cobra.Command {
	command := &cobra.Command{Use: "store", Short: "Adopt or verify the store as a whole"}
	command.AddCommand(s.adoptCommand(), s.verifyCommand())
	return command
}

func (s *session) adoptCommand() *cobra.Command {
	var reason string
	var minEpoch uint64
	command := &cobra.Command{
		Use:   "adopt --reason WHY",
		Short: "Accept a store that lost commits; pushes go on",
		Long: `Accept a store that lost commits, for example after a restore.

A store that lacks commits, or that may lack some, stops all pushes by itself:
lehr get stops says why. Look at it first. Pins, holds, stops and approvals that
were given since are gone, and after the adoption Lehr pushes what lehr get reports
shows as different.

Epochs and incarnations continue after any that were lost. Open pushes are settled
first, and unused approvals become void. The command needs only the store; servers
may run meanwhile.`,
		Example: `  lehr get stops
  lehr get reports --state waiting
  lehr store adopt --reason "the machine is gone; backup of Monday"`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := reasoned(command, reason); err != nil {
				return err
			}
			adopted, err := s.local.Keeping.Adopt(command.Context(), s.storePlace(), reason, minEpoch, s.actor())
			if err != nil {
				return err
			}
			if s.json() {
				return printJSON(s.Out, adopted)
			}
			s.tellAdopted(adopted)
			return nil
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why, for the record")
	command.Flags().Uint64Var(&minEpoch, "beyond", 0, "continue after this epoch, which a target knows")
	return command
}

func (s *session) tellAdopted(a Adopted) {
	if a.Why != "" {
		fmt.Fprintf(s.Out, "Found: %s\n", plain(a.Why))
	}
	missing := fmt.Sprintf("%s known to be lost", count(int(a.Lost), "commit"))
	if a.Unsure {
		missing += ", and perhaps more"
	}
	fmt.Fprintf(s.Out, "Adopted as generation %d; %s.\n", a.Generation, missing)
	for _, p := range a.Partitions {
		fmt.Fprintf(s.Out, "Partition %s goes on at %s, past epoch %d.\n", plain(p.ID), plain(p.Head), p.Epoch)
	}
	fmt.Fprintf(s.Out, "%s settled first; %s void.\n", verb(int(a.Doubted), "open push", "is", "es are"), verb(int(a.Voided), "unused approval", "is", "s are"))
}

// verb is "1 push is", "2 pushes are".
func verb(n int, noun, one, more string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s %s", noun, one)
	}
	return fmt.Sprintf("%d %s%s", n, noun, more)
}

func (s *session) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Read the whole store, and recompute every digest",
		Long: `Read the whole store, and recompute every digest: content, memberships, candidates,
generator outputs and audit chains. In a file, SQLite's own structures are checked
too. Nothing is changed, and a server may run meanwhile.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			place := s.storePlace()
			verified, err := s.local.Keeping.Verify(command.Context(), place)
			if err != nil {
				return err
			}
			return s.tellVerified(verified, "Verified "+s.local.StoreName(cmp.Or(place.Database, place.Store)))
		},
	}
}

func (s *session) tellVerified(verified Verified, label string) error {
	if s.json() {
		return printJSON(s.Out, verified)
	}
	fmt.Fprintf(s.Out, "%s: %s.\n", plain(label), verified)
	return nil
}

// onlyFiles refuses what is done to files alone, and says what does it to a
// database.
func (s *session) onlyFiles(operation, alternative string) error {
	if s.storePlace().Database == "" {
		return nil
	}
	named := "LEHR_DATABASE"
	if s.databaseGiven {
		named = "--database"
	}
	return fault.New(fault.Invalid, "%s works on a store that is a file, and %s names a database", operation, named).
		WithHint("PostgreSQL's own tools do it, see docs/operate/operating.md, Backup and restore: %s", alternative)
}

func (s *session) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the store into a new file; a server may run meanwhile",
		Long: `Copy a store that is a file into a new file, as it is at one moment. The copy gets its
name only when it is verified and durable. Nothing is overwritten. A store that is
restored from the copy stops all pushes until it is adopted.`,
		Example: "  lehr backup /backup/lehr-monday.db",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := s.onlyFiles("lehr backup", `pg_dump --format=custom --file=FILE --dbname="$LEHR_DATABASE"`); err != nil {
				return err
			}
			verified, err := s.local.Keeping.Backup(command.Context(), s.store, args[0])
			if err != nil {
				return err
			}
			return s.tellVerified(verified, "Backed up to "+args[0])
		},
	}
}

func (s *session) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup in the store's place; pushes wait for lehr store adopt",
		Long: `Verify a backup, and put it in the store's place. The old store is kept under another
name; the two are never merged. The command is refused while a server uses the store.
You can serve the restored store at once and look at it, but nothing is pushed until
somebody adopts it: lehr store adopt.`,
		Example: `  lehr restore /backup/lehr-monday.db
  lehr serve`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := s.onlyFiles("lehr restore", "createdb, pg_restore, lehr serve, lehr store adopt"); err != nil {
				return err
			}
			aside, verified, err := s.local.Keeping.Restore(command.Context(), args[0], s.store)
			if aside != "" && !s.json() {
				fmt.Fprintf(s.Out, "The store before is kept as %s.\n", plain(aside))
			}
			if err != nil {
				return err
			}
			if s.json() {
				return printJSON(s.Out, map[string]any{"verified": verified, "before": aside})
			}
			fmt.Fprintf(s.Out, "Restored %s: %s.\nServe it and look: lehr serve, lehr get reports. Nothing is pushed until: lehr store adopt --reason WHY\n", plain(s.store), verified)
			return nil
		},
	}
}
