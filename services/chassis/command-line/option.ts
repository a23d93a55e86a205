export type Completion =
  | { readonly kind: 'none' }
  | { readonly kind: 'values'; readonly values: readonly string[] }
  | { readonly kind: 'file' }
  | { readonly kind: 'folder' }
  /** Suggests the domains of the resources, and the rules of a domain. */
  | { readonly kind: 'domain' }
  | { readonly kind: 'rule' }

export const noValues: Completion = { kind: 'none' }
export const aFile: Completion = { kind: 'file' }
export const aFolder: Completion = { kind: 'folder' }
export const aDomain: Completion = { kind: 'domain' }
export const aRule: Completion = { kind: 'rule' }

/** An option of a command: the only source for parsing, help and completion. */
export interface Option<Value = unknown> {
  readonly short?: string
  /** The value in the help: `FOLDER`. Empty for a switch. */
  readonly placeholder: string
  /** The help text, without the default. */
  readonly help: string
  /** The value when the option is not given. */
  readonly fallback: Value
  /** The default as the help shows it; empty to show none. */
  readonly shownFallback: string
  readonly repeats: boolean
  readonly completion: Completion
  /**
   * Converts the given texts. If the option does not repeat, the last one counts.
   *
   * @throws Error with the reason; the caller puts `--name text: ` before it
   */
  read(texts: readonly string[]): Value
}

export type Options = Readonly<Record<string, Option>>

export type OptionValues<Table extends Options> = {
  readonly [Name in keyof Table]: Table[Name] extends Option<infer Value> ? Value : never
}

interface About {
  readonly short?: string
  readonly placeholder?: string
  readonly help: string
  readonly completion?: Completion
}

const last = (texts: readonly string[]) => texts.at(-1) ?? ''

function option<Value>(
  about: About & { readonly placeholder: string },
  rest: Pick<Option<Value>, 'fallback' | 'read'> & Partial<Option<Value>>,
): Option<Value> {
  const { fallback } = rest
  const shownFallback = typeof fallback === 'string' || typeof fallback === 'number' ? `${fallback}` : ''
  return { shownFallback, repeats: false, completion: noValues, ...about, ...rest }
}

/** A switch: `--name` and `--name=true` turn it on, `--name=false` off. The default is off. */
export function toggle(about: Omit<About, 'placeholder' | 'completion'>): Option<boolean> {
  const read = (texts: readonly string[]) => {
    if (last(texts) !== 'true' && last(texts) !== 'false') throw new Error('must be true or false')
    return last(texts) === 'true'
  }
  return option({ ...about, placeholder: '' }, { fallback: false, read })
}

export function optionalText(about: About & { readonly placeholder: string }): Option<string | undefined> {
  return option<string | undefined>(about, { fallback: undefined, read: last })
}

export function textOr(fallback: string, about: About & { readonly placeholder: string }): Option<string> {
  return option(about, { fallback, read: last })
}

export function texts(about: About & { readonly placeholder: string }): Option<readonly string[]> {
  return option<readonly string[]>(about, { fallback: [], repeats: true, read: found => found })
}

/** An option with one of these names. The first name is the default. */
export function choice<const Name extends string>(names: readonly [Name, ...Name[]], about: About) {
  return option<Name>(
    { placeholder: 'NAME', completion: { kind: 'values', values: names }, ...about },
    {
      fallback: names[0],
      read(texts) {
        const name = names.find(each => each === last(texts))
        if (name === undefined) throw new Error(`must be one of ${names.join(', ')}`)
        return name
      },
    },
  )
}

export function numberInRange(fallback: number, { min, max, ...about }: About & Range): Option<number> {
  return option(
    { placeholder: 'N', ...about },
    {
      fallback,
      read(texts) {
        const found = /^\d{1,15}$/.test(last(texts)) ? Number(last(texts)) : -1
        if (found < min || found > max) throw new Error(`must be a whole number from ${min} to ${max}`)
        return found
      },
    },
  )
}

interface Range {
  readonly min: number
  readonly max: number
}

const maxWaitSeconds = 86_400

/** A duration of at most a day. `fallback` and `min` are in seconds; the value is in milliseconds. */
export function seconds(fallback: number, about: About & { readonly min?: number }): Option<number> {
  const { min = 0, ...rest } = about
  return option(
    { placeholder: 'SECONDS', ...rest },
    {
      fallback: fallback * 1000,
      shownFallback: `${fallback}`,
      read(texts) {
        const found = /^\d+(\.\d+)?$/.test(last(texts)) ? Number(last(texts)) : -1
        if (found < min || found > maxWaitSeconds)
          throw new Error(`must be a number of seconds from ${min} to ${maxWaitSeconds}`)
        return found * 1000
      },
    },
  )
}

/** The value is undefined when the option is not given. */
export function withoutDefault<Value>(given: Option<Value>): Option<Value | undefined> {
  return { ...given, fallback: undefined, shownFallback: '' }
}
