import { readSettings, type Setting } from '@tollway/chassis/settings.ts'

/** What the operator knows of the settings of one of its services. */
export interface ServiceEnv {
  /**
   * Judges settings that a person gives to the processes of the service, before any of them is started with
   * them. Each problem begins with the name of its setting.
   *
   * @param place whose configuration has them: that of `tollway run`, or that of a cluster
   */
  judge(env: Readonly<Record<string, string>>, place: Place): readonly string[]
  /** Whether the value is one that no other user of the machine may read. */
  isSecret(name: string): boolean
  /** How long a process with these settings may take from SIGTERM to its end. */
  drainMs(env: Readonly<Record<string, string>>): number
}

export type Place = 'machine' | 'cluster'

/** The settings that the operator decides for each process, each with its field, if it has one. */
export type DecidedSetting = { readonly setting: Setting<unknown> } & Readonly<Partial<Record<Place, string>>>

type Table = Readonly<Record<string, Setting<unknown>>> & {
  readonly drainDelayMs: Setting<number>
  readonly drainTimeoutMs: Setting<number>
}

export interface ServiceEnvOptions {
  /** Every setting of the service. */
  readonly settings: Table
  readonly decided: readonly DecidedSetting[]
  /** Settings whose names hold a name that the user chose. */
  readonly openNames?: RegExp
}

/** Those of the traces' libraries, which every service has. */
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
    judge(env, place) {
      // The files are the processes' to read.
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

/** All names of a setting in an environment. */
export function namesOf({ name, aliases = [], secret }: Setting<unknown>): readonly string[] {
  const names = [name, ...aliases]
  return secret ? [...names, ...names.map(one => `${one}_FILE`)] : names
}
