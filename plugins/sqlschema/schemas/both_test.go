package schemas

import (
	"context"
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
)

const plays = `
CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE plays (
	id INTEGER PRIMARY KEY,
	title TEXT NOT NULL,
	year INTEGER CHECK (year > 1500), -- a comment; with a semicolon
	author INTEGER REFERENCES authors (id),
	CONSTRAINT one_title UNIQUE (author, title)
);
CREATE INDEX plays_year ON plays (year) WHERE year IS NOT NULL;
CREATE VIEW old_plays AS SELECT id, title FROM plays WHERE year < 1600;
`

func TestFromNothingToInSync(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		schema := g.schema(plays)
		d := g.diff(t, schema)
		if d.Plan.Action != serve.ActionCreate || strings.Contains(changes(d), "! ") {
			t.Errorf("the plan is %s:\n%s", d.Plan.Action, changes(d))
		}
		g.push(t, schema)
		g.exec(t, "insert into authors (id, name) values (1, 'Marlowe'); insert into plays (id, title, year, author) values (1, 'Edward II', 1592, 1)")
		if got := g.query(t, "select title from old_plays"); got != "Edward II" {
			t.Errorf("the view shows %q", got)
		}
		if after := g.diff(t, schema); after.Outcome != serve.InSync {
			t.Errorf("rows alone make a difference:\n%s", changes(after))
		}
	})
}

// steps of one table; want is what the plan says of objects, per engine when
// they differ.
var steps = []struct {
	name, before, after string
	want                map[string]string
}{
	{
		"a nullable column is added", "CREATE TABLE t (id integer PRIMARY KEY, a text)", "CREATE TABLE t (id integer PRIMARY KEY, a text, b text)",
		map[string]string{"": `objects["column t.b"]:  → "text"`},
	},
	{
		"a column with a default is added", "CREATE TABLE t (id integer PRIMARY KEY)", "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 7)",
		map[string]string{"sqlite": `objects["column t.n"]:  → "integer, not null default 7"`, "postgres": `objects["column t.n"]:  → "integer, not null, default 7"`},
	},
	{
		"a column is dropped", "CREATE TABLE t (id integer PRIMARY KEY, a text, b text)", "CREATE TABLE t (id integer PRIMARY KEY, a text)",
		map[string]string{"": `! objects["column t.b"]: "text" → `},
	},
	{
		"a type is changed", "CREATE TABLE t (id integer PRIMARY KEY, a text)", "CREATE TABLE t (id integer PRIMARY KEY, a integer)",
		map[string]string{"": `! objects["column t.a"]: "text" → "integer"`},
	},
	{
		"an index is added", "CREATE TABLE t (id integer PRIMARY KEY, a text)", "CREATE TABLE t (id integer PRIMARY KEY, a text); CREATE INDEX t_a ON t (a)",
		map[string]string{
			"sqlite":   `objects["index t_a"]:  → "create index t_a on t (a)"`,
			"postgres": `objects["index t_a"]:  → "CREATE INDEX t_a ON t USING btree (a)"`,
		},
	},
	{
		"an index is dropped", "CREATE TABLE t (id integer PRIMARY KEY, a text); CREATE INDEX t_a ON t (a)", "CREATE TABLE t (id integer PRIMARY KEY, a text)",
		map[string]string{
			"sqlite":   `objects["index t_a"]: "create index t_a on t (a)" → `,
			"postgres": `objects["index t_a"]: "CREATE INDEX t_a ON t USING btree (a)" → `,
		},
	},
	{
		"a unique index is dropped", "CREATE TABLE t (id integer PRIMARY KEY, a text); CREATE UNIQUE INDEX t_a ON t (a)", "CREATE TABLE t (id integer PRIMARY KEY, a text)",
		map[string]string{
			"sqlite":   `! objects["index t_a"]: "create unique index t_a on t (a)" → `,
			"postgres": `! objects["index t_a"]: "CREATE UNIQUE INDEX t_a ON t USING btree (a)" → `,
		},
	},
	{
		"a check is added", "CREATE TABLE t (id integer PRIMARY KEY, a integer)", "CREATE TABLE t (id integer PRIMARY KEY, a integer, CONSTRAINT positive CHECK (a > 0))",
		map[string]string{"sqlite": `objects["constraint t.positive"]:  → "check (a > 0)"`, "postgres": `objects["constraint t.positive"]:  → "CHECK (a > 0)"`},
	},
	{
		"a check is dropped", "CREATE TABLE t (id integer PRIMARY KEY, a integer, CONSTRAINT positive CHECK (a > 0))", "CREATE TABLE t (id integer PRIMARY KEY, a integer)",
		map[string]string{"sqlite": `! objects["constraint t.positive"]: "check (a > 0)" → `, "postgres": `! objects["constraint t.positive"]: "CHECK (a > 0)" → `},
	},
	{
		"a column may be null", "CREATE TABLE t (id integer PRIMARY KEY, a text NOT NULL)", "CREATE TABLE t (id integer PRIMARY KEY, a text)",
		map[string]string{"": `objects["column t.a"]: "text, not null" → "text"`},
	},
	{
		"a foreign key is added", "CREATE TABLE p (id integer PRIMARY KEY); CREATE TABLE t (id integer PRIMARY KEY, p integer)",
		"CREATE TABLE p (id integer PRIMARY KEY); CREATE TABLE t (id integer PRIMARY KEY, p integer, CONSTRAINT to_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
		map[string]string{
			"sqlite":   `objects["constraint t.to_p"]:  → "foreign key (p) references p (id) on delete cascade"`,
			"postgres": `objects["constraint t.to_p"]:  → "FOREIGN KEY (p) REFERENCES p(id) ON DELETE CASCADE"`,
		},
	},
}

func TestStepsOfATable(t *testing.T) {
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, g *ground) {
				g.push(t, g.schema(step.before))
				g.exec(t, "insert into t (id) select 1 where not exists (select 1 from t) and '"+step.name+"' <> 'a column may be null'")
				want := step.want[g.name]
				if want == "" {
					want = step.want[""]
				}
				if got := objects(g.push(t, g.schema(step.after))); got != want {
					t.Errorf("the plan says\n%s\nwant\n%s", got, want)
				}
				if rows := g.query(t, "select id from t"); rows != "1" && step.name != "a column may be null" {
					t.Errorf("the rows are %q now", rows)
				}
				g.push(t, g.schema(step.before)) // and back
			})
		})
	}
}

func TestWhatIsNotDeclaredIsNotTouched(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		g.exec(t, "create table goose_db_version (id integer primary key); create table other (id integer primary key, t integer); create index other_t on other (t); create view foreign_view as select id from other; insert into other (id) values (4)")
		schema := g.schema("CREATE TABLE t (id integer PRIMARY KEY, a text, b text); CREATE INDEX t_a ON t (a)")
		if plan := changes(g.push(t, schema)); strings.Contains(plan, "other") || strings.Contains(plan, "goose") {
			t.Errorf("the plan names what is not declared:\n%s", plan)
		}
		g.push(t, g.schema("CREATE TABLE t (id integer PRIMARY KEY, a integer)"))
		if got := g.query(t, "select id from foreign_view"); got != "4" {
			t.Errorf("the foreign view shows %q", got)
		}
		g.exec(t, "insert into goose_db_version (id) values (1)")
	})
}

func TestHalfAppliedByAnotherTool(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		g.exec(t, "CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)")
		schema := g.schema(plays)
		d := g.diff(t, schema)
		if d.Plan.Action != serve.ActionUpdate || strings.Contains(objects(d), "authors.") || !strings.Contains(objects(d), "column plays.title") {
			t.Errorf("the plan is not the rest:\n%s", objects(d))
		}
		g.push(t, schema)
	})
}

// intruder changes the database between the plan and the transaction.
type intruder struct {
	allowed
	now func()
}

func (i *intruder) Effect(context.Context) error {
	if i.now != nil {
		i.now()
		i.now = nil
	}
	return nil
}

func TestAChangeBetweenPlanAndPushIsStale(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		g.push(t, g.schema("CREATE TABLE t (id integer PRIMARY KEY, a text)"))
		schema := g.schema("CREATE TABLE t (id integer PRIMARY KEY, a text, b text)")
		d := g.diff(t, schema)
		// There and back by hand: nothing differs from the plan's beginning.
		outcome := g.try(t, schema, d, &intruder{now: func() {
			g.exec(t, "alter table t add column c text; alter table t drop column c")
		}})
		if outcome.Ending != serve.Stale {
			t.Fatalf("the push ended as %s: %s", outcome.Ending, outcome.Reason)
		}
		if got := objects(g.diff(t, schema)); got != `objects["column t.b"]:  → "text"` {
			t.Errorf("it was not left as it was:\n%s", got)
		}
		g.push(t, schema)
	})
}

func TestAFailingLastStatementChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		g.push(t, g.schema("CREATE TABLE t (id integer PRIMARY KEY, a text)"))
		g.exec(t, "insert into t (id, a) values (1, 'secret-value'), (2, 'secret-value')")
		schema := g.schema("CREATE TABLE new (id integer PRIMARY KEY); CREATE TABLE t (id integer PRIMARY KEY, a text, b text); CREATE UNIQUE INDEX t_a ON t (a)")
		d := g.diff(t, schema)
		outcome := g.try(t, schema, d, allowed{})
		if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "nothing was changed") && !strings.Contains(outcome.Reason, "mend the rows") {
			t.Fatalf("the push ended as %s: %s", outcome.Ending, outcome.Reason)
		}
		if strings.Contains(outcome.Reason, "secret-value") {
			t.Errorf("the reason shows what a row holds: %s", outcome.Reason)
		}
		if after := g.diff(t, schema); changes(after) != changes(d) {
			t.Errorf("something was changed:\n%s", changes(after))
		}
	})
}

func TestNotNullWithoutAValueIsFlaggedWhenThereAreRows(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		g.push(t, g.schema("CREATE TABLE t (id integer PRIMARY KEY)"))
		schema := g.schema("CREATE TABLE t (id integer PRIMARY KEY, a text NOT NULL)")
		if got := objects(g.diff(t, schema)); strings.HasPrefix(got, "!") {
			t.Errorf("without rows it is no harm: %s", got)
		}
		g.exec(t, "insert into t (id) values (1)")
		d := g.diff(t, schema)
		if got := objects(d); !strings.HasPrefix(got, "!") {
			t.Errorf("with rows it fails: %s", got)
		}
		if outcome := g.try(t, schema, d, allowed{}); outcome.Ending != serve.Failed {
			t.Errorf("the push ended as %s: %s", outcome.Ending, outcome.Reason)
		}
	})
}

func TestTwoAssetsOfOneTable(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		one := g.schema("CREATE TABLE t (id integer PRIMARY KEY); CREATE TABLE u (id integer PRIMARY KEY)")
		d := g.push(t, one)
		same := kind.Diff(t.Context(), []serve.Intent{asIntent(t, "other", one)})[0]
		if same.Outcome != serve.Unknown || !strings.Contains(same.Reason, "shop:db") {
			t.Errorf("another asset of the same table: %+v", same)
		}
		overlapping := kind.Diff(t.Context(), []serve.Intent{asIntent(t, "other", g.schema("CREATE TABLE u (id integer PRIMARY KEY)"))})[0]
		if overlapping.Outcome != serve.Unknown || !strings.Contains(overlapping.Reason, "table u") {
			t.Errorf("another asset that shares a table: %+v", overlapping)
		}
		different := kind.Diff(t.Context(), []serve.Intent{asIntent(t, "other", g.schema("CREATE TABLE v (id integer PRIMARY KEY)"))})[0]
		if different.Outcome != serve.Differs || different.ResourceKey == d.ResourceKey {
			t.Errorf("another asset of another table: %+v", different)
		}
		// What leaves the SQL is given up by a push that says so, and stays.
		g.push(t, g.schema("CREATE TABLE t (id integer PRIMARY KEY)"))
		g.exec(t, "insert into u (id) values (1)")
		free := kind.Diff(t.Context(), []serve.Intent{asIntent(t, "other", g.schema("CREATE TABLE u (id integer PRIMARY KEY)"))})[0]
		if free.Outcome != serve.Differs || objects(free) != "" {
			t.Errorf("a table that was given up: %+v", free)
		}
	})
}

func TestVersionIsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		schema := g.schema("CREATE TABLE t (id integer PRIMARY KEY)")
		g.push(t, schema)
		schema.Version = "v2"
		d := g.diff(t, schema)
		if changes(d) != `version: "v1" → "v2"` || d.Health.State == serve.Healthy || d.Health.ObservedVersion != "v1" {
			t.Errorf("the plan is\n%s\nhealth %+v", changes(d), d.Health)
		}
		g.push(t, schema)
		schema.LockTimeout, schema.StatementTimeout = nil, nil
		if d := g.diff(t, schema); d.Outcome != serve.InSync {
			t.Errorf("time limits are a difference:\n%s", changes(d))
		}
	})
}
