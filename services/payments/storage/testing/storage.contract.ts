import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Storage, StorageError, type Tx } from '../storage.ts'

export interface OpenedStorage {
  readonly storage: Storage
  /** Whether only one transaction can run at a time, while others wait. */
  readonly single: boolean
}

/**
 * Registers the tests that each implementation of `Storage` must pass.
 *
 * @param open called once for the suite; the caller of `storageContract` closes the storage
 * @param skip why the suite is skipped; false to run it
 */
export function storageContract(
  name: string,
  open: () => Promise<OpenedStorage>,
  skip: string | false = false,
): void {
  describe(`${name} as storage`, { skip }, () => {
    let opened: Promise<OpenedStorage> | undefined
    for (const [rule, run] of Object.entries(rules)) {
      test(rule, async () => {
        opened ??= open()
        const { storage, single } = await opened
        await storage.transaction(tx => tx.script(freshTable))
        await run(storage, single)
      })
    }
  })
}

const freshTable = `DROP TABLE IF EXISTS facts;
  CREATE TABLE facts (name text CONSTRAINT facts_name PRIMARY KEY,
                      value bigint CONSTRAINT facts_value CHECK (value >= 0),
                      twin text CONSTRAINT facts_twin REFERENCES facts (name) DEFERRABLE INITIALLY DEFERRED)`

const insert = 'INSERT INTO facts (name, value) VALUES ($1, $2)'

function names(storage: Storage): Promise<readonly string[]> {
  return storage.transaction(async tx => {
    const rows = await tx.query<{ name: string }>('SELECT name FROM facts ORDER BY name')
    return rows.map(row => row.name)
  })
}

type Rule = (storage: Storage, single: boolean) => Promise<void>

const isolation = ['read committed', 'repeatable read', 'serializable'] as const

const rules: Record<string, Rule> = {
  'statements without a wait are stored in order with those that are awaited': async storage => {
    await storage.transaction(async tx => {
      tx.send(insert, ['sent', 1n])
      const [row] = await tx.query<{ value: bigint }>("SELECT value FROM facts WHERE name = 'sent'")
      assert.equal(row?.value, 1n)
      tx.send('UPDATE facts SET value = value + 1 WHERE name = $1', ['sent'])
      tx.send(insert, ['last', 2n])
    })
    assert.deepEqual(await names(storage), ['last', 'sent'])
  },

  'a failed statement without a wait rolls the transaction back': async storage => {
    const failing = storage.transaction(async tx => {
      tx.send(insert, ['before', 1n])
      tx.send(insert, ['refused', -1n])
      tx.send(insert, ['after', 1n])
      return 'all is well'
    })
    await assert.rejects(failing, { code: 'constraint', constraint: 'facts_value' })
    assert.deepEqual(await names(storage), [])
    await storage.transaction(async tx => tx.send(insert, ['next', 1n]))
    assert.deepEqual(await names(storage), ['next'])
  },

  'a statement without a wait and with an invalid value fails the transaction': async storage => {
    const failing = storage.transaction(async tx => {
      tx.send(insert, ['beside', 1n])
      tx.send("INSERT INTO facts SELECT 'bad', extract(epoch FROM $1::timestamptz)::bigint", [
        new Date(Number.NaN),
      ])
    })
    await assert.rejects(failing)
    assert.deepEqual(await names(storage), [])
  },

  'statements that were sent before an exception are rolled back': async storage => {
    const thrown = new Error('no')
    const failing = storage.transaction(async tx => {
      tx.send(insert, ['sent', 1n])
      throw thrown
    })
    await assert.rejects(failing, thrown)
    assert.deepEqual(await names(storage), [])
  },

  'committed rows are stored, and the result of the work is returned': async storage => {
    for (const level of isolation) {
      const answer = await storage.transaction(
        async tx => {
          await tx.query(insert, [level, 1n])
          const [row] = await tx.query<{ level: string }>('SHOW transaction_isolation')
          return Object.values(row ?? {})
        },
        { isolation: level },
      )
      assert.deepEqual(answer, [level])
    }
    assert.deepEqual(await names(storage), [...isolation].sort())
  },

  'an exception of the work is rethrown unchanged, and rolls back': async storage => {
    const own = new Error('own')
    const failing = storage.transaction(async tx => {
      await tx.query(insert, ['a', 1n])
      throw own
    })
    await assert.rejects(failing, error => error === own)
    assert.deepEqual(await names(storage), [])
  },

  'the error of a constraint has its name': async storage => {
    await storage.transaction(tx => tx.query(insert, ['a', 1n]))
    const table: readonly [string, (tx: Tx) => Promise<unknown>][] = [
      ['facts_name', tx => tx.query(insert, ['a', 2n])],
      ['facts_value', tx => tx.query(insert, ['b', -1n])],
      ['facts_twin', tx => tx.query("INSERT INTO facts VALUES ('c', 1, 'nobody')")],
    ]
    for (const [constraint, work] of table) {
      await assert.rejects(storage.transaction(work), {
        name: 'StorageError',
        code: 'constraint',
        constraint,
      })
    }
    assert.deepEqual(await names(storage), ['a'])
  },

  'work that swallows a failed statement cannot commit the rest': async storage => {
    const swallowing = storage.transaction(async tx => {
      await tx.query(insert, ['a', 1n])
      await tx.query(insert, ['a', 1n]).catch(() => {})
    })
    await assert.rejects(swallowing, { code: 'constraint', constraint: 'facts_name' })
    assert.deepEqual(await names(storage), [])
  },

  'the work may translate the error of a failed statement': async storage => {
    const own = new Error('taken')
    const failing = storage.transaction(async tx => {
      await tx.query(insert, ['a', -1n]).catch(() => {
        throw own
      })
    })
    await assert.rejects(failing, error => error === own)
  },

  'an invalid statement is rejected': async storage => {
    await assert.rejects(
      storage.transaction(tx => tx.query('SELEC 1')),
      { code: 'refused', sqlState: '42601' },
    )
    await assert.rejects(
      storage.transaction(tx => tx.query(insert, ['a\0', 1n])),
      { code: 'refused' },
    )
  },

  'values have the same types in every storage': async storage => {
    const when = new Date('2026-02-03T04:05:06.789Z')
    const row = await storage.transaction(async tx => {
      const [first] = await tx.query<Record<string, unknown>>(
        `SELECT $1::bigint AS big, 7::bigint AS small, $2::timestamptz AS at, $3::json AS json, $4::bytea AS bytes,
                $5::boolean AS yes, 5::int AS int, $6::text[] AS list, NULL::text AS nothing,
                $7::uuid AS id, sum(x) AS total FROM (VALUES (9007199254740993::bigint), (1)) AS v (x)`,
        [
          9007199254740993n,
          when,
          '{"b":1,"a":[null]}',
          Uint8Array.of(0, 1, 255),
          true,
          ['a,"', 'b'],
          '0198a7b0-0000-7000-8000-00000000000a',
        ],
      )
      return first
    })
    assert.deepEqual(
      { ...row, bytes: [...((row?.['bytes'] as Uint8Array) ?? [])] },
      {
        big: 9007199254740993n,
        small: 7n,
        at: when,
        json: { b: 1, a: [null] },
        bytes: [0, 1, 255],
        yes: true,
        int: 5,
        list: ['a,"', 'b'],
        nothing: null,
        id: '0198a7b0-0000-7000-8000-00000000000a',
        total: '9007199254740994',
      },
    )
  },

  'a transaction inside another one is an error, not an endless wait': async storage => {
    await assert.rejects(
      storage.transaction(() => storage.transaction(async () => {})),
      /inside another/,
    )
    await assert.rejects(
      storage.read(() => storage.read(async () => {})),
      /inside another/,
    )
  },

  'a transaction that has ended rejects statements': async storage => {
    const kept = await storage.transaction(async tx => tx)
    await assert.rejects(kept.query('SELECT 1'), /has ended/)
  },

  'a read sees committed rows': async storage => {
    await storage.transaction(tx => tx.query(insert, ['a', 1n]))
    const count = 'SELECT count(*) AS n FROM facts WHERE value >= $1'
    const counts = await storage.read(tx =>
      Promise.all([tx.query<{ n: bigint }>(count, [0n]), tx.query<{ n: bigint }>(count, [2n])]),
    )
    assert.deepEqual(counts, [[{ n: 1n }], [{ n: 0n }]])
  },

  'a read rejects statements that could write or lock': async storage => {
    await storage.transaction(tx => tx.query(insert, ['a', 1n]))
    const statements = [
      "INSERT INTO facts (name) VALUES ('b')",
      'UPDATE facts SET value = 2',
      'DELETE FROM facts',
      'WITH gone AS (DELETE FROM facts RETURNING name) SELECT name FROM gone',
      'SELECT name FROM facts FOR UPDATE',
      'SELECT name FROM facts FOR KEY SHARE',
      'SET statement_timeout = 0',
    ]
    for (const statement of statements) {
      await assert.rejects(
        storage.read(tx => tx.query(statement)),
        /no statement that writes/,
      )
    }
    await assert.rejects(
      storage.read(tx => tx.script('SELECT 1')),
      /script/,
    )
    assert.deepEqual(await names(storage), ['a'])
  },

  'a failed read does not affect later ones': async storage => {
    const own = new Error('own')
    const failing = storage.read(async tx => {
      await tx.query('SELECT name FROM facts')
      throw own
    })
    await assert.rejects(failing, error => error === own)
    await assert.rejects(
      storage.read(tx => Promise.all([tx.query('SELECT 1 / 0'), tx.query('SELECT 1')])),
      { code: 'refused', sqlState: '22012' },
    )
    const swallowing = storage.read(tx => tx.query('SELECT nothing FROM facts').catch(() => []))
    await assert.rejects(swallowing, { code: 'refused', sqlState: '42703' })
    const kept = await storage.read(async tx => tx)
    await assert.rejects(kept.query('SELECT 1'), /has ended/)
    assert.deepEqual(await names(storage), [])
  },

  'fifty concurrent increments are all counted': async storage => {
    await storage.transaction(tx => tx.query(insert, ['sum', 0n]))
    const addOne = async (tx: Tx) => {
      const [row] = await tx.query<{ value: bigint }>("SELECT value FROM facts WHERE name = 'sum' FOR UPDATE")
      await tx.query("UPDATE facts SET value = $1 WHERE name = 'sum'", [(row?.value ?? 0n) + 1n])
    }
    await Promise.all(Array.from({ length: 50 }, () => storage.transaction(addOne)))
    const rows = await storage.transaction(tx => tx.query('SELECT value FROM facts'))
    assert.deepEqual(rows, [{ value: 50n }])
  },

  'serializable transactions that conflict are retried': async (storage, single) => {
    await storage.transaction(tx => tx.query(insert, ['start', 0n]))
    let tries = 0
    // Each transaction inserts a row only if the number of rows is odd. There is one row, so in any serial
    // order only the first transaction inserts.
    const work = (parity: number) => async (tx: Tx) => {
      tries += 1
      const [row] = await tx.query<{ n: bigint }>('SELECT count(*) AS n FROM facts')
      if (Number(row?.n) % 2 === 1) await tx.query(insert, [`odd${parity}`, 1n])
    }
    const both = [0, 1].map(i => storage.transaction(work(i), { isolation: 'serializable' }))
    await Promise.all(both)
    assert.equal((await names(storage)).length, 2)
    if (single) assert.equal(tries, 2)
  },

  'a deadlock is resolved': async (storage, single) => {
    if (single) return
    await storage.transaction(tx => tx.query("INSERT INTO facts VALUES ('a', 0), ('b', 0)"))
    const met = meeting(2)
    const work = (first: string, second: string) => async (tx: Tx) => {
      const add = 'UPDATE facts SET value = value + 1 WHERE name = $1'
      await tx.query(add, [first])
      await met()
      await tx.query(add, [second])
    }
    await Promise.all([storage.transaction(work('a', 'b')), storage.transaction(work('b', 'a'))])
    const rows = await storage.transaction(tx => tx.query('SELECT value FROM facts ORDER BY name'))
    assert.deepEqual(rows, [{ value: 2n }, { value: 2n }])
  },

  'contention is an error after the maximum of attempts': async storage => {
    let tries = 0
    const failing = storage.transaction(async tx => {
      tries += 1
      await tx.script("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")
    })
    await assert.rejects(failing, error => error instanceof StorageError && error.code === 'contention')
    assert.ok(tries > 2, `${tries} tries`)
  },
}

/**
 * Returns a function whose callers wait for each other; later callers, such as a second attempt, do not wait.
 */
function meeting(count: number): () => Promise<void> {
  let missing = count
  const { promise, resolve } = Promise.withResolvers<void>()
  return () => {
    missing -= 1
    if (missing <= 0) resolve()
    return promise
  }
}
