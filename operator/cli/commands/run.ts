import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import {
  type Command,
  type CommandOutput,
  exitCodes,
  UsageError,
} from '@tollway/chassis/command-line/command.ts'
import {
  aFile,
  noValues,
  type Option,
  type Options,
  optionalText,
} from '@tollway/chassis/command-line/option.ts'
import { parseOptions, requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import { runUntilStopped } from '@tollway/chassis/lifecycle.ts'
import {
  parseOperatorConfig,
  options as table,
  type ValidatedConfig,
  validateOperatorConfig,
  type WrittenConfig,
} from '../../environments/host/operator-config.ts'
import { startStandalone } from '../../environments/host/start.ts'
import { InfrastructureError } from '../../infrastructure/provider.ts'
import type { HostOption } from '../../workloads/host-option.ts'
import type { ServiceEnv } from '../../workloads/service-env.ts'
import { describeFileError } from '../read-input.ts'
import { stateDirOption } from '../shared-options.ts'

/** The option leaves texts unparsed: `validateOptions` parses them, together with the configuration file. */
function toOption({ placeholder, help, fallback, names, env }: HostOption): Option<unknown> {
  const isShown = fallback !== '' && typeof fallback !== 'object' && placeholder !== ''
  return {
    placeholder,
    help,
    fallback: undefined,
    shownFallback: isShown ? `${fallback}` : '',
    repeats: env !== undefined,
    completion: names === undefined ? noValues : { kind: 'values', values: names },
    read: texts => (env === undefined ? texts.at(-1) : texts),
  }
}

const operatorTable: Options = Object.fromEntries(
  Object.values<HostOption>(table).map(option => [option.flag, toOption(option)]),
)

const ownOptions = {
  file: optionalText({
    short: 'f',
    placeholder: 'FOLDER',
    help: 'the folder or file of the manifests',
    completion: aFile,
  }),
  'state-dir': stateDirOption,
  config: optionalText({
    placeholder: 'FILE',
    help:
      'a YAML file with these options: replicas, redisUrl, grpcPort, …, rateLimitEnv: {NAME: VALUE}, ' +
      'brokerEnv, paymentsEnv',
    completion: aFile,
  }),
}

const { file, ...others } = ownOptions
const options: Options = { file, ...operatorTable, ...others }

export const runFolderCommand: Command = {
  name: 'run',
  summary: 'enforce a folder of manifests on this machine',
  options,
  help: {
    usage: ['-f FOLDER [OPTIONS]'],
    description: `\
Watches the manifests in FOLDER and enforces them on this machine, without Kubernetes. It starts processes of
the rate limit service and of the broker of animation streams. With --payments it also runs the payments
service and provisions Merchants. Ctrl-C stops all processes; a second Ctrl-C kills them.`,
    exitCodes: '0 after a signal, 2 when it could not start.',
    examples: [
      'tollway run -f examples/quickstart',
      'tollway run -f limits --replicas 3 --redis-url localhost:6379',
      'tollway run -f limits --env SHADOW_MODE=true --env NEAR_LIMIT_RATIO=0.9',
    ],
  },
  async run(args, output) {
    const options = readOptions(args)
    const cancelStart = new AbortController()
    const forceShutdown = new AbortController()
    const signals = { signal: cancelStart.signal, forceShutdown: forceShutdown.signal }
    const starting = startStandalone({ ...options, print: output.print, ...signals })
    stopOnSignal(starting, { cancelStart, forceShutdown }, output)
    try {
      await starting
      return await untilStopped
    } catch (error) {
      if (cancelStart.signal.aborted) return await untilStopped
      if (!(error instanceof InfrastructureError)) throw error
      output.printError(`tollway run: ${error.message}\n`)
      return exitCodes.failed
    }
  },
}

/** Never resolves: the process exits when all its parts have stopped. */
const untilStopped = new Promise<never>(() => {})

function stopOnSignal(
  starting: ReturnType<typeof startStandalone>,
  {
    cancelStart,
    forceShutdown,
  }: { readonly cancelStart: AbortController; readonly forceShutdown: AbortController },
  output: CommandOutput,
): void {
  runUntilStopped({
    forceShutdown() {
      output.printError('killing all processes\n')
      forceShutdown.abort()
    },
    stop: async reason => {
      output.printError(`\nstopping all processes (${reason})\n`)
      cancelStart.abort()
      const standalone = await starting.catch(() => undefined)
      await standalone?.stop()
    },
    onFatal: error => output.printError(`tollway run: internal error: ${(error as Error).stack}\n`),
  })
  // The open channel to the parent process would keep this process running after a failed start.
  process.channel?.unref()
}

function readOptions(args: readonly string[]) {
  const { values } = parseOptions(args, { ...operatorTable, ...ownOptions })
  const file = requireOption('--file', values.file)
  if (!existsSync(file)) throw new Error(`--file ${file}: no such file or folder`)
  const judged = validateOptions(values, values.config)
  if ('problems' in judged) throw new UsageError(judged.problems.join('\n  '))
  return { folder: resolve(file), stateDir: resolve(values['state-dir']), config: judged.value }
}

function validateOptions(
  values: Readonly<Record<string, unknown>>,
  file: string | undefined,
): ValidatedConfig {
  const fromFile = file === undefined ? {} : readConfigFile(file)
  const written: Record<string, unknown> = { ...fromFile }
  const spellings = new Map(Object.keys(fromFile).map(field => [field, `${file}: ${field}`]))
  for (const [field, { flag, env }] of Object.entries<HostOption>(table)) {
    const value = values[flag]
    if (value === undefined) continue
    if (flag === 'redis-url') rejectPassword(value as string)
    written[field] =
      env === undefined
        ? value
        : mergeEnv(fromFile[field], parseEnv(value as string[], `--${flag}`, field, env))
    spellings.set(field, `--${flag}`)
  }
  return validateOperatorConfig(written, field => spellings.get(field) ?? field)
}

function rejectPassword(redisUrl: string): void {
  if (!redisUrl.includes('@')) return
  throw new UsageError(
    '--redis-url: every user of the machine could read the password; put redisUrl into --config FILE',
  )
}

function readConfigFile(path: string): WrittenConfig {
  let text: string
  try {
    // The file may be a pipe, such as the output of a program that decrypts a file.
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`--config ${path}: ${describeFileError(error)}`)
  }
  const parsed = parseOperatorConfig(text)
  if ('problem' in parsed) throw new UsageError(`--config ${path}: ${parsed.problem}`)
  return parsed.value
}

/** A value in the file that is not an object is returned unchanged, and reported by the validation. */
function mergeEnv(fromFile: unknown, fromFlags: Readonly<Record<string, string>>): unknown {
  return typeof (fromFile ?? {}) === 'object' ? { ...(fromFile as object), ...fromFlags } : fromFile
}

function parseEnv(
  pairs: readonly string[],
  flag: string,
  field: string,
  settings: ServiceEnv,
): Record<string, string> {
  return Object.fromEntries(
    pairs.map(pair => {
      const sign = pair.indexOf('=')
      if (sign < 1) throw new UsageError(`${flag} ${pair}: must be NAME=VALUE`)
      const name = pair.slice(0, sign)
      if (settings.isSecret(name)) {
        const rule = `every user of the machine could read it; put it under ${field} into --config FILE`
        throw new UsageError(`${flag} ${name}: ${rule}`)
      }
      return [name, pair.slice(sign + 1)]
    }),
  )
}
