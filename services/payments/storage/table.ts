import { type SqlValue, toDate } from './storage.ts'

export type Row = Readonly<Record<string, unknown>>

/** How a table stores a field of its records: in one or more columns. */
export interface TableField<Value> {
  readonly columns: readonly string[]
  /** Returns the values of the columns, in their order. */
  write(value: Value): readonly SqlValue[]
  read(row: Row): Value
}

type Fields = Readonly<Record<string, TableField<unknown>>>

/** The record with these fields. */
export type RecordOf<Defined extends Fields> = {
  readonly [Name in keyof Defined]: Defined[Name] extends TableField<infer Value> ? Value : never
}

/** A column whose values need no conversion. */
export function valueColumn<Value extends SqlValue>(name: string): TableField<Value> {
  return { columns: [name], write: value => [value], read: row => row[name] as Value }
}

/** A time in milliseconds since the epoch. */
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

/** A JSON value, which the database parses. */
export function jsonColumn<Value>(name: string): TableField<Value> {
  return {
    columns: [name],
    write: value => [value === null ? null : JSON.stringify(value)],
    read: row => row[name] as Value,
  }
}

/** An object whose fields are columns. */
export function columnGroup<Inner extends Fields>(fields: Inner): TableField<RecordOf<Inner>> {
  const entries = Object.entries(fields)
  return {
    columns: entries.flatMap(([, field]) => field.columns),
    write: value => entries.flatMap(([name, field]) => field.write(value[name])),
    read: row =>
      Object.fromEntries(entries.map(([name, field]) => [name, field.read(row)])) as RecordOf<Inner>,
  }
}

/** A statement whose first parameters are fields of a record. */
interface RecordStatement<Shape> {
  readonly sql: string
  /** The number of parameters of the record. */
  readonly count: number
  values(record: Shape): readonly SqlValue[]
}

/**
 * The columns of a table, and the record that each row is. Statements name columns only through it, so that a
 * new field is one line here and one in a migration.
 */
export class Table<Defined extends Fields> {
  readonly name: string
  /** All columns, as a SELECT or RETURNING lists them. */
  readonly columns: string
  readonly #fields: Defined
  readonly #names: readonly string[]

  /** @param fields in a list of an owner, the first is the owner's id */
  constructor(name: string, fields: Defined) {
    this.name = name
    this.#fields = fields
    this.#names = Object.values(fields).flatMap(field => field.columns)
    this.columns = this.#names.join(', ')
  }

  /** Returns the columns for a statement that gives the table another name, or joins it. */
  columnsWithAlias(alias: string): string {
    return this.#names.map(name => `${alias}.${name}`).join(', ')
  }

  /** Returns the record of a row. */
  readonly read = (row: Row): RecordOf<Defined> => {
    const record: Record<string, unknown> = {}
    for (const name in this.#fields) record[name] = this.#fields[name]?.read(row)
    return record as RecordOf<Defined>
  }

  /** @param more columns that the record does not have, whose values follow those of the record */
  insert(more: readonly string[] = []): RecordStatement<RecordOf<Defined>> {
    const columns = [...this.#names, ...more]
    return {
      sql: `INSERT INTO ${this.name} (${columns.join(', ')}) VALUES (${parameters(columns)})`,
      count: this.#names.length,
      values: record => this.values(record),
    }
  }

  /**
   * Returns the statement that inserts an element at the next position of its owner's list. The owner is
   * locked from then on, so that it belongs at the end of a transaction. The database rejects an owner
   * without a list.
   */
  insertAtNextPosition(): RecordStatement<RecordOf<Defined>> {
    return this.#insertAtNextPosition('', '')
  }

  /** @param next inserts rows that depend on the inserted one, which it names `inserted` */
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

  /** Returns the statement that updates these fields of the record with its id. */
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

  /** Returns the values of all columns, in their order. */
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
