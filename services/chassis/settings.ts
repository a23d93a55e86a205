/**
 * A setting from the environment. One typed table of a service gives the parser, the documentation and the
 * variables that the operator sets. Durations and booleans are written as in Go.
 */
export interface Setting<T> {
  /** The name of the environment variable: `LOG_LEVEL`. */
  readonly name: string
  /** Other variables for the same setting; two with different values are rejected. */
  readonly aliases?: readonly string[]
  readonly kind: SettingKind<T>
  /** The default as text; empty only if `kind` can parse it. */
  readonly fallback: string
  /** One sentence for the documentation. */
  readonly help: string
  /** Why a setting that is accepted only for compatibility has no effect. */
  readonly noEffect?: string
  /** Whether the value is a secret: it may be in the file that NAME_FILE names, and no message shows it. */
  readonly secret?: boolean
}

/** The format of a value: `parse` returns undefined for a text that is not as `allowed` says. */
export interface SettingKind<T> {
  readonly allowed: string
  parse(text: string): T | undefined
}

export type SettingValues<Table extends Record<string, Setting<unknown>>> = {
  readonly [K in keyof Table]: Table[K] extends Setting<infer T> ? T : never
}

export interface SettingProblem {
  readonly name: string
  readonly message: string
}

/** Keeps the exact type of the table: an annotation would widen names and values. */
export function settingsTable<const Table extends Record<string, Setting<unknown>>>(table: Table): Table {
  return table
}

/**
 * Returns all values or all problems. An empty variable counts as unset.
 *
 * @param readFile reads the file that a variable NAME_FILE names
 */
export function readSettings<Table extends Record<string, Setting<unknown>>>(
  table: Table,
  env: Readonly<Record<string, string | undefined>>,
  readFile: (path: string) => string,
): { readonly value: SettingValues<Table> } | { readonly problems: readonly SettingProblem[] } {
  const problems: SettingProblem[] = []
  const values: Record<string, unknown> = {}
  for (const [field, setting] of Object.entries(table)) {
    const found = findText(setting, env, readFile)
    if ('problem' in found) {
      problems.push({ name: setting.name, message: found.problem })
      continue
    }
    const parsed = setting.kind.parse(found.text)
    if (parsed === undefined) {
      const shown = setting.secret ? 'the value' : JSON.stringify(found.text)
      problems.push({ name: found.name, message: `${shown} is not allowed: ${setting.kind.allowed}` })
    }
    values[field] = parsed
  }
  return problems.length > 0 ? { problems } : { value: values as SettingValues<Table> }
}

interface IneffectiveSetting {
  /** The name of the setting or one of its aliases. */
  readonly name: string
  readonly reason: string
}

/** Returns the variables that are set without an effect, for a warning at the start. */
export function findIneffective(
  table: Record<string, Setting<unknown>>,
  env: Readonly<Record<string, string | undefined>>,
): readonly IneffectiveSetting[] {
  return Object.values(table).flatMap(({ name, aliases = [], noEffect: reason }) => {
    if (reason === undefined) return []
    return [name, ...aliases].filter(variable => env[variable]).map(variable => ({ name: variable, reason }))
  })
}

/** The exit code for invalid settings, EX_CONFIG of sysexits.h. */
export const settingsExitCode = 78

type Found = { readonly name: string; readonly text: string } | { readonly problem: string }

function findText(
  setting: Setting<unknown>,
  env: Readonly<Record<string, string | undefined>>,
  readFile: (path: string) => string,
): Found {
  const names = [setting.name, ...(setting.aliases ?? [])]
  const set: { name: string; text: string }[] = []
  for (const name of names) {
    const text = env[name]
    if (text) set.push({ name, text })
    const path = setting.secret ? env[`${name}_FILE`] : undefined
    if (!path) continue
    try {
      set.push({ name: `${name}_FILE`, text: readFile(path).replace(/\r?\n$/, '') })
    } catch (error) {
      return { problem: `${name}_FILE: ${(error as Error).message}` }
    }
  }
  const first = set[0]
  if (first === undefined) return { name: setting.name, text: setting.fallback }
  const other = set.find(({ text }) => text !== first.text)
  if (other === undefined) return first
  return {
    problem: `${first.name} and ${other.name} are the same setting and have different values; keep one`,
  }
}

export const text: SettingKind<string> = { allowed: 'any text', parse: value => value }

/** A boolean of Go's ParseBool. */
export const boolean: SettingKind<boolean> = {
  allowed: 'one of 1, t, T, TRUE, true, True, 0, f, F, FALSE, false, False',
  parse: value => {
    if (['1', 't', 'T', 'TRUE', 'true', 'True'].includes(value)) return true
    return ['0', 'f', 'F', 'FALSE', 'false', 'False'].includes(value) ? false : undefined
  },
}

export function integer(min: number, max: number): SettingKind<number> {
  return {
    allowed: `a whole number from ${min} to ${max}`,
    parse: value => {
      if (!/^-?\d+$/.test(value)) return undefined
      const number = Number(value)
      return number >= min && number <= max ? number : undefined
    },
  }
}

/** A number that may have a fraction and an exponent. */
export function decimal(min: number, max: number): SettingKind<number> {
  return {
    allowed: `a number from ${min} to ${max}`,
    parse: value => {
      if (!/^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value)) return undefined
      const number = Number(value)
      return number >= min && number <= max ? number : undefined
    },
  }
}

/** One of these words in any letter case; the value is spelled as in `words`. */
export function oneOf<const Word extends string>(...words: readonly Word[]): SettingKind<Word> {
  return {
    allowed: `one of ${words.map(word => word || '(empty)').join(', ')}`,
    parse: value => words.find(word => word.toLowerCase() === value.toLowerCase()),
  }
}

const durationUnitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
}

const durationForm = /^\+?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$/
/** 20 days: a timer of Node for more than 24.8 days fires at once. */
export const maxDurationMs = 480 * 3_600_000

/**
 * A duration in Go's notation, converted to milliseconds, up to 480 h. A number without a unit is invalid,
 * except 0.
 */
export function durationAtLeast(minMs: number): SettingKind<number> {
  const bounds = minMs === 0 ? 'at most 480h' : `${minMs}ms to 480h`
  return {
    allowed: `a duration such as 500ms, 10s or 1m30s, with the units ns, us, ms, s, m, h; ${bounds}`,
    parse: value => {
      if (value !== '0' && !durationForm.test(value)) return undefined
      let total = 0
      for (const [, number, unit] of value.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g)) {
        total += Number(number) * (durationUnitMs[unit ?? ''] ?? Number.NaN)
      }
      return total >= minMs && total <= maxDurationMs ? total : undefined
    },
  }
}

export const durationMs: SettingKind<number> = durationAtLeast(0)

/** Pairs such as `k1:v1,k2:v2`. A name may occur once; a value may contain colons. */
export const pairs: SettingKind<ReadonlyMap<string, string>> = {
  allowed: 'a list such as name:value,other:value',
  parse: value => {
    const map = new Map<string, string>()
    if (value === '') return map
    for (const pair of value.split(',')) {
      const colon = pair.indexOf(':')
      const name = pair.slice(0, colon).trim()
      if (colon < 1 || name === '' || map.has(name)) return undefined
      map.set(name, pair.slice(colon + 1).trim())
    }
    return map
  },
}

/** An address: `host:port`, `[IPv6]:port`, or `:port` with an empty host for every address of the machine. */
export const hostPort: SettingKind<{ readonly host: string; readonly port: number }> = {
  allowed: 'host:port, or :port',
  parse: value => {
    const match = /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(value)
    const port = Number(match?.[3])
    if (match === null || port > 65_535) return undefined
    return { host: match[1] ?? match[2] ?? '', port }
  },
}

/** Returns a Markdown table for the documentation. */
export function describeSettings(table: Record<string, Setting<unknown>>): string {
  const rows = Object.values(table).map(setting => {
    const names = [setting.name, ...(setting.aliases ?? [])].map(name => `\`${name}\``).join(', ')
    const shown = setting.fallback === '' ? '' : `\`${setting.fallback}\``
    const help =
      setting.noEffect === undefined ? setting.help : `${setting.help} No effect: ${setting.noEffect}.`
    return `| ${names} | ${shown} | ${help} | ${setting.kind.allowed} |`
  })
  return ['| Name | Default | Meaning | Allowed |', '|---|---|---|---|', ...rows, ''].join('\n')
}
