import { isObject } from '@tollway/chassis/is-object.ts'
import { logLevels } from '@tollway/chassis/log/log.ts'
import type { ServiceEnv } from './service-env.ts'

/** Options of `tollway run` that several services use. */
export const commonOptions = {
  redisUrl: textOption({
    flag: 'redis-url',
    placeholder: 'URL',
    fallback: '',
    help:
      'the address of Redis: host:port, the path of a Unix socket, or redis://…; without it, the operator ' +
      'starts the redis-server of the PATH for several processes of a service',
  }),
  host: textOption({
    flag: 'host',
    placeholder: 'ADDRESS',
    fallback: '127.0.0.1',
    help: 'the address on which the services accept calls',
  }),
  logLevel: choice(logLevels, {
    flag: 'log-level',
    placeholder: 'LEVEL',
    fallback: 'info',
    help: `the log level: ${logLevels.join(', ')}`,
  }),
}

export type CommonConfig = HostConfig<typeof commonOptions>

/** An option of `tollway run`, which is also a field of the configuration file. */
export interface HostOption<Value = unknown> {
  /** The name on the command line without dashes: `grpc-port`. */
  readonly flag: string
  /** The name of the value in the help: `PORT`. Empty for a switch, which takes no value. */
  readonly placeholder: string
  /** The text of the help. It does not state the default. */
  readonly help: string
  readonly fallback: Value
  /** The allowed values, if only some are allowed. */
  readonly names?: readonly string[]
  /**
   * The service whose settings the option sets; present only if the option can be repeated, once for each
   * setting.
   */
  readonly env?: ServiceEnv
  /**
   * Parses a value from the configuration file or the command line, where numbers and switches may be text. A
   * problem contains neither the name of the option nor a value that may be a secret.
   */
  read(found: unknown): Read<Value>
}

type Read<Value> = { readonly value: Value } | { readonly problems: readonly string[] }

export type HostOptions = Readonly<Record<string, HostOption>>

export type HostConfig<Options> = {
  readonly [Field in keyof Options]: Options[Field] extends HostOption<infer Value> ? Value : never
}

interface OptionDescription<Value> {
  readonly flag: string
  readonly help: string
  readonly fallback: Value
}

export const maxReplicas = 64
export const maxPort = 65_535

export function numberOption(
  about: OptionDescription<number> & {
    readonly placeholder?: string
    readonly min?: number
    readonly max: number
  },
): HostOption<number> {
  const { placeholder = 'N', min = 1, max, ...rest } = about
  return {
    ...rest,
    placeholder,
    read(found) {
      const value = typeof found !== 'object' && /^\d{1,9}$/.test(String(found)) ? Number(found) : -1
      return value < min || value > max
        ? notAllowed(found, `a whole number from ${min} to ${max}`)
        : { value }
    },
  }
}

export function portOption(about: OptionDescription<number>): HostOption<number> {
  return numberOption({ ...about, placeholder: 'PORT', max: maxPort })
}

export function switchOption(about: Omit<OptionDescription<boolean>, 'fallback'>): HostOption<boolean> {
  return {
    ...about,
    fallback: false,
    placeholder: '',
    read: found =>
      ['true', 'false'].includes(String(found))
        ? { value: String(found) === 'true' }
        : notAllowed(found, 'true or false'),
  }
}

/** Returns an option whose value is text. A problem does not quote the text, which may be a secret. */
function textOption(about: OptionDescription<string> & { readonly placeholder: string }): HostOption<string> {
  return {
    ...about,
    read: found =>
      typeof found === 'string' ? { value: found || about.fallback } : { problems: ['is not a text'] },
  }
}

function choice<const Name extends string>(
  names: readonly Name[],
  about: OptionDescription<Name> & { readonly placeholder: string },
): HostOption<Name> {
  return {
    ...about,
    names,
    read(found) {
      const value = names.find(name => name === found)
      return value === undefined ? notAllowed(found, `one of ${names.join(', ')}`) : { value }
    },
  }
}

type Settings = Readonly<Record<string, string>>

/**
 * Returns an option for settings of a service by name. They take precedence over those that the operator
 * sets.
 */
export function settingsOption(
  env: ServiceEnv,
  about: Omit<OptionDescription<Settings>, 'fallback'>,
): HostOption<Settings> {
  return {
    ...about,
    env,
    fallback: {},
    placeholder: 'NAME=VALUE',
    read(found) {
      if (!isObject(found)) return { problems: ['must be a mapping of settings and their values'] }
      const nested = Object.entries(found).filter(([, value]) => typeof value === 'object')
      const value = Object.fromEntries(Object.entries(found).map(([name, each]) => [name, String(each)]))
      const problems =
        nested.length > 0
          ? nested.map(([name]) => `${name}: is not a text, a number, true or false`)
          : env.validate(value, 'machine')
      return problems.length > 0 ? { problems } : { value }
    },
  }
}

function notAllowed(found: unknown, allowed: string): { readonly problems: readonly string[] } {
  return { problems: [`${JSON.stringify(found)} is not ${allowed}`] }
}
