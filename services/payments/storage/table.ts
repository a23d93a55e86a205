import { type SqlValue, type Tx, toDate } from './storage.ts'

export type Row = Readonly<Record<string, unknown>>

/** How one field of a record is stored, in one or more columns. */
export interface TableField<Value> {
  readonly columns: readonly string[]
  /** Returns the values of `columns`, in the same order. */
  write(value: Value): readonly SqlValue[]
  read(row: Row): Value
}

type Fields = Readonly<Record<string, TableField<unknown>>>

export type RecordOf<Defined extends Fields> = {
  readonly [Name in keyof Defined]: Defined[Name] extends TableField<infer Value> ? Value : never
}

/** A field in one column, whose values need no conversion. */
export function valueColumn<Value extends SqlValue>(name: string): TableField<Value> {
  return { columns: [name], write: value => [value], read: row => row[name] as Value }
}

/** A field with a time in milliseconds since the epoch, in a `timestamptz` column. */
export function instantColumn(name: string): TableField<number> {
  return {
    columns: [name],
    write: ms => [toDate(ms)],
    read: row => (row[name] as Date).getTime(),
  }
}

export function nullableInstantColumn(name: string): TableField<number | null> {
  return {
    columns: [name],
    write: ms => [ms === null ? null : toDate(ms)],
    read: row => (row[name] as Date | null)?.getTime() ?? null,
  }
}

export function jsonColumn<Value>(name: string): TableField<Value> {
  return {
    columns: [name],
    write: value => [value === null ? null : JSON.stringify(value)],
    read: row => row[name] as Value,
  }
}

/** A field that is an object. Each inner field has columns of its own. */
export function columnGroup<Inner extends Fields>(fields: Inner): TableField<RecordOf<Inner>> {
  const entries = Object.entries(fields)
  return {
    columns: entries.flatMap(([, field]) => field.columns),
    write: value => entries.flatMap(([name, field]) => field.write(value[name])),
    read: row =>
      Object.fromEntries(entries.map(([name, field]) => [name, field.read(row)])) as RecordOf<Inner>,
  }
}

/** A statement whose first parameters are the values of a record's fields. */
interface RecordStatement<Shape> {
  readonly sql: string
  /** The number of parameters that come from the record. */
  readonly count: number
  values(record: Shape): readonly SqlValue[]
}

/** Maps rows to records. A new field needs only a line in the map and one in a migration. */
export class Table<Defined extends Fields> {
  readonly name: string
  /** The names of all columns, separated by commas, for SELECT and RETURNING. */
  readonly columns: string
  readonly #fields: Defined
  readonly #names: readonly string[]

  /** @param fields for `insertAtNextPosition`, the first one must be the id of the owner */
  constructor(name: string, fields: Defined) {
    this.name = name
    this.#fields = fields
    this.#names = Object.values(fields).flatMap(field => field.columns)
    this.columns = this.#names.join(', ')
  }

  columnsWithAlias(alias: string): string {
    return this.#names.map(name => `${alias}.${name}`).join(', ')
  }

  readonly read = (row: Row): RecordOf<Defined> => {
    const record: Record<string, unknown> = {}
    for (const name in this.#fields) record[name] = this.#fields[name]?.read(row)
    return record as RecordOf<Defined>
  }

  readonly find = async (tx: Tx, id: string): Promise<RecordOf<Defined> | undefined> => {
    const [row] = await tx.query<Row>(`SELECT ${this.columns} FROM ${this.name} WHERE id = $1`, [id])
    return row && this.read(row)
  }

  /** @param more further columns of the table, whose values the caller passes after those of the record */
  insert(more: readonly string[] = []): RecordStatement<RecordOf<Defined>> {
    const columns = [...this.#names, ...more]
    return {
      sql: `INSERT INTO ${this.name} (${columns.join(', ')}) VALUES (${parameters(columns)})`,
      count: this.#names.length,
      values: record => this.values(record),
    }
  }

  /** Locks the owner's list until the transaction ends, so run it last. Fails if the owner has no list. */
  insertAtNextPosition(): RecordStatement<RecordOf<Defined>> {
    return this.#insertAtNextPosition('', '')
  }

  /** @param next the rest of the statement, which can read the inserted row from `inserted` */
  insertAtNextPositionWith(next: string): RecordStatement<RecordOf<Defined>> {
    return this.#insertAtNextPosition(', inserted AS (', ` RETURNING *) ${next}`)
  }

  #insertAtNextPosition(before: string, after: string): RecordStatement<RecordOf<Defined>> {
    return {
      sql: `WITH place AS (UPDATE positions SET last = last + 1 WHERE owner = $1 RETURNING last)${before}
        INSERT INTO ${this.name} (${this.columns}, position)
        VALUES (${parameters(this.#names)}, (SELECT last FROM place))${after}`,
      count: this.#names.length,
      values: record => this.values(record),
    }
  }

  update<Name extends keyof Defined & string>(
    ...names: readonly Name[]
  ): RecordStatement<Pick<RecordOf<Defined>, Name | 'id'>> {
    const columns = names.flatMap(name => this.#fields[name]?.columns ?? [])
    const settings = columns.map((name, index) => `${name} = $${index + 2}`)
    return {
      sql: `UPDATE ${this.name} SET ${settings.join(', ')} WHERE id = $1`,
      count: columns.length + 1,
      values: record => this.#write(record, ['id', ...names]),
    }
  }

  values(record: RecordOf<Defined>): readonly SqlValue[] {
    return this.#write(record, Object.keys(this.#fields))
  }

  #write(record: object, names: readonly string[]): readonly SqlValue[] {
    const values = record as Readonly<Record<string, unknown>>
    return names.flatMap(name => this.#fields[name]?.write(values[name]) ?? [])
  }
}

function parameters(columns: readonly string[]): string {
  return columns.map((_, index) => `$${index + 1}`).join(', ')
}
