import { readSettings, type Setting } from '@tollway/chassis/settings.ts'

/** The settings of a service, as the operator knows them. */
export interface ServiceEnv {
  /**
   * Validates settings that a person sets for the processes of the service, before any of them starts. Each
   * problem begins with the name of its setting.
   *
   * @param place the configuration that has them: that of `tollway run`, or that of a cluster
   */
  validate(env: Readonly<Record<string, string>>, place: Place): readonly string[]
  /** Returns whether the value is a secret. */
  isSecret(name: string): boolean
  /** Returns the time limit of a process with these settings from SIGTERM to its end. */
  drainMs(env: Readonly<Record<string, string>>): number
}

export type Place = 'machine' | 'cluster'

/**
 * The settings that the operator sets for each process, each with its field of the configuration, if it has
 * one.
 */
export type DecidedSetting = { readonly setting: Setting<unknown> } & Readonly<Partial<Record<Place, string>>>

type Table = Readonly<Record<string, Setting<unknown>>> & {
  readonly drainDelayMs: Setting<number>
  readonly drainTimeoutMs: Setting<number>
}

export interface ServiceEnvOptions {
  /** Every setting of the service. */
  readonly settings: Table
  readonly decided: readonly DecidedSetting[]
  /** The pattern of settings whose names contain a name that the user chose. */
  readonly openNames?: RegExp
}

/** The settings of the tracing libraries, which every service has. */
const tracingNames = /^OTEL_\w+$/

export function createServiceEnv({ settings, decided, openNames }: ServiceEnvOptions): ServiceEnv {
  const table: readonly Setting<unknown>[] = Object.values(settings)
  const isKnown = (name: string) =>
    tracingNames.test(name) ||
    openNames?.test(name) === true ||
    table.some(setting => namesOf(setting).includes(name))

  const notTheirs = (name: string, place: Place): readonly string[] => {
    const found = decided.find(({ setting }) => namesOf(setting).includes(name))
    if (found === undefined) return isKnown(name) ? [] : [`${name}: there is no such setting`]
    const field = found[place]
    return [`${name}: the operator decides it${field === undefined ? '' : `; set ${field} instead`}`]
  }

  return {
    validate(env, place) {
      // Only the processes read the files that settings name.
      const read = readSettings(settings, env, () => '')
      const wrong = 'problems' in read ? read.problems.map(({ name, message }) => `${name}: ${message}`) : []
      return [...Object.keys(env).flatMap(name => notTheirs(name, place)), ...wrong]
    },
    isSecret: name =>
      table.some(({ secret, name: own, aliases = [] }) => secret && [own, ...aliases].includes(name)),
    drainMs(env) {
      const { drainDelayMs, drainTimeoutMs } = settings
      return [drainDelayMs, drainTimeoutMs]
        .map(({ name, fallback, kind }) => kind.parse(env[name] || fallback) ?? 0)
        .reduce((sum, ms) => sum + ms, 0)
    },
  }
}

/** Returns all names of a setting in an environment. */
export function namesOf({ name, aliases = [], secret }: Setting<unknown>): readonly string[] {
  const names = [name, ...aliases]
  return secret ? [...names, ...names.map(one => `${one}_FILE`)] : names
}
