import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { runUntilStopped } from '@tollway/chassis/lifecycle.ts'
import {
  defaultOperatorConfig as defaults,
  judgeOperatorConfig,
  type OperatorConfig,
  parseOperatorConfig,
  type WrittenConfig,
} from '../../environments/host/operator-config.ts'
import { startStandalone } from '../../environments/host/start-on-host.ts'
import { defaultStateDir } from '../../environments/host/state-dir.ts'
import { InfrastructureError } from '../../infrastructure/provider.ts'
import { brokerEnv } from '../../services/broker/broker-env.ts'
import { paymentsEnv } from '../../services/payments/payments-env.ts'
import { rateLimitEnv } from '../../services/ratelimit/rate-limit-env.ts'
import type { ServiceEnv } from '../../services/service-env.ts'
import { type Command, exitCodes, type Output, UsageError } from '../command.ts'
import { parseOptions } from '../options.ts'

const flags = {
  replicas: 'replicas',
  'redis-url': 'redisUrl',
  host: 'host',
  'grpc-port': 'grpcPort',
  'http-port': 'httpPort',
  'debug-port': 'debugPort',
  metrics: 'metrics',
  'metrics-port': 'metricsPort',
  'feed-port': 'feedPort',
  'operator-port': 'operatorPort',
  'envoy-timeout-ms': 'envoyTimeoutMs',
  'log-level': 'logLevel',
  'broker-replicas': 'brokerReplicas',
  'broker-port': 'brokerPort',
  'broker-debug-port': 'brokerDebugPort',
  payments: 'payments',
  'payments-port': 'paymentsPort',
  'payments-debug-port': 'paymentsDebugPort',
  'payments-provision-port': 'paymentsProvisionPort',
} as const satisfies Record<string, keyof OperatorConfig>

/** Options that are given again for each setting, and whose settings they are. */
const envFlags = {
  env: { field: 'rateLimitEnv', settings: rateLimitEnv },
  'broker-env': { field: 'brokerEnv', settings: brokerEnv },
  'payments-env': { field: 'paymentsEnv', settings: paymentsEnv },
} as const

export const run: Command = {
  name: 'run',
  summary: 'enforce a folder of manifests on this machine',
  help: `Usage: tollway run -f FOLDER [OPTIONS]

Watches the manifests below FOLDER and enforces them with processes of the rate limit service and of the
broker of animation streams, which it starts on this machine, without Kubernetes; with --payments it runs the
payments service too, and provisions Merchants. Ends all of them on Ctrl-C, and at once on a second one.

  -f, --file FOLDER     the manifests
  --replicas N          rate limit processes (default ${defaults.replicas}); several count in one Redis
  --redis-url URL       host:port, a unix socket's path or redis://…; without it a redis-server on the
                        PATH is started where there are several processes of a service
  --host ADDRESS        where calls are taken (default ${defaults.host})
  --grpc-port PORT      rate limit calls by gRPC (default ${defaults.grpcPort})
  --http-port PORT      rate limit calls by HTTP (default ${defaults.httpPort})
  --debug-port PORT     debug pages of the first process, on loopback (default ${defaults.debugPort})
  --metrics             each process serves Prometheus metrics, on loopback (default ${defaults.metrics})
  --metrics-port PORT   those of the first process (default ${defaults.metricsPort})
  --feed-port PORT      the feed, on loopback (default ${defaults.feedPort})
  --operator-port PORT  the operator's own pages, on loopback (default ${defaults.operatorPort})
  --envoy-timeout-ms N  of Envoy's rate limit filter (default ${defaults.envoyTimeoutMs}); with a Redis,
                        BACKEND_DEADLINE is three quarters of it
  --env NAME=VALUE      a setting of the rate limit service; again for another one
  --broker-replicas N   brokers of animation streams (default ${defaults.brokerReplicas}; 0 for none);
                        several share their streams in one Redis
  --broker-port PORT    animation streams by gRPC (default ${defaults.brokerPort})
  --broker-debug-port N pages and metrics of the first one, on loopback (default ${defaults.brokerDebugPort})
  --broker-env X=VALUE  a setting of the broker; again for another one
  --payments            run the payments service too, with its database in the state folder
  --payments-port PORT  its API and payment page (default ${defaults.paymentsPort})
  --payments-debug-port N      its pages and metrics, on loopback (default ${defaults.paymentsDebugPort})
  --payments-provision-port N  for the operator, on loopback (default ${defaults.paymentsProvisionPort})
  --payments-env X=VALUE       a setting of the payments service; again for another one
  --log-level LEVEL     debug, info, warn or error (default ${defaults.logLevel})
  --state-dir DIR       what outlives a restart, and the logs (default ${defaultStateDir})
  --config FILE         all of these as YAML: replicas, redisUrl, grpcPort, …, rateLimitEnv: {NAME: VALUE},
                        brokerEnv: {NAME: VALUE}, paymentsEnv: {NAME: VALUE}

Exit code: 0 when it was told to end, 2 when it could not start.

Examples:
  tollway run -f examples/quickstart
  tollway run -f limits --replicas 3 --redis-url localhost:6379
  tollway run -f limits --env SHADOW_MODE=true --env NEAR_LIMIT_RATIO=0.9
`,
  async run(args, output) {
    const options = readOptions(args)
    const giveUp = new AbortController()
    const forceShutdown = new AbortController()
    const signals = { signal: giveUp.signal, forceShutdown: forceShutdown.signal }
    const starting = startStandalone({ ...options, print: output.print, ...signals })
    stopOnSignal(starting, { giveUp, forceShutdown }, output)
    try {
      await starting
      return await untilStopped
    } catch (error) {
      if (giveUp.signal.aborted) return await untilStopped
      if (!(error instanceof InfrastructureError)) throw error
      output.printError(`tollway run: ${error.message}\n`)
      return exitCodes.failed
    }
  },
}

/** The process exits when everything has ended; until then the command has no answer. */
const untilStopped = new Promise<never>(() => {})

function stopOnSignal(
  starting: ReturnType<typeof startStandalone>,
  { giveUp, forceShutdown }: { readonly giveUp: AbortController; readonly forceShutdown: AbortController },
  output: Output,
): void {
  runUntilStopped({
    forceShutdown() {
      output.printError('killing every process\n')
      forceShutdown.abort()
    },
    stop: async reason => {
      output.printError(`\nending every process (${reason})\n`)
      giveUp.abort()
      const standalone = await starting.catch(() => undefined)
      await standalone?.stop()
    },
    onFatal: error => output.printError(`tollway run: exit: internal error: ${(error as Error).stack}\n`),
  })
  // A failed start ends the process even if the other end of its channel is still open.
  process.channel?.unref()
}

function readOptions(args: readonly string[]) {
  const text = { type: 'string' } as const
  const { values } = parseOptions(args, {
    file: { type: 'string', short: 'f' },
    'state-dir': { type: 'string', default: defaultStateDir },
    config: text,
    env: { type: 'string', multiple: true },
    replicas: text,
    'redis-url': text,
    host: text,
    'grpc-port': text,
    'http-port': text,
    'debug-port': text,
    metrics: { type: 'boolean' },
    'metrics-port': text,
    'feed-port': text,
    'operator-port': text,
    'envoy-timeout-ms': text,
    'log-level': text,
    'broker-replicas': text,
    'broker-port': text,
    'broker-debug-port': text,
    'broker-env': { type: 'string', multiple: true },
    payments: { type: 'boolean' },
    'payments-port': text,
    'payments-debug-port': text,
    'payments-provision-port': text,
    'payments-env': { type: 'string', multiple: true },
  })
  if (values.file === undefined) throw new UsageError('name the folder of manifests with -f')
  if (!existsSync(values.file)) throw new UsageError(`${values.file}: no such file or folder`)
  if (values['redis-url']?.includes('@')) {
    throw new UsageError(
      '--redis-url: every user of the machine could read the password; put redisUrl into --config FILE',
    )
  }
  const { config: file } = values
  const fromFile = file === undefined ? {} : readConfigFile(file)
  const written: Record<string, unknown> = { ...fromFile }
  const spellings = new Map(Object.keys(fromFile).map(field => [field, `${file}: ${field}`]))
  for (const [flag, field] of Object.entries(flags)) {
    const value = values[flag as keyof typeof flags]
    if (value === undefined) continue
    written[field] = value
    spellings.set(field, `--${flag}`)
  }
  for (const [flag, { field, settings }] of Object.entries(envFlags)) {
    const pairs = values[flag as keyof typeof envFlags]
    if (pairs === undefined) continue
    written[field] = withEnv(fromFile[field], parseEnv(pairs, `--${flag}`, field, settings))
    spellings.set(field, `--${flag}`)
  }
  const judged = judgeOperatorConfig(written, field => spellings.get(field) ?? field)
  if ('problems' in judged) throw new UsageError(judged.problems.join('\n  '))
  return { folder: resolve(values.file), stateDir: resolve(values['state-dir']), config: judged.value }
}

function readConfigFile(path: string): WrittenConfig {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new UsageError(`--config ${path}: cannot be read: ${(error as Error).message}`)
  }
  const parsed = parseOperatorConfig(text)
  if ('problem' in parsed) throw new UsageError(`--config ${path}: ${parsed.problem}`)
  return parsed.value
}

/** Validation reports a field of the file that has the wrong form, so it is returned unchanged. */
function withEnv(fromFile: unknown, fromFlags: Readonly<Record<string, string>>): unknown {
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
      if (sign < 1) throw new UsageError(`${flag} ${pair}: is not NAME=VALUE`)
      const name = pair.slice(0, sign)
      if (settings.isSecret(name)) {
        const rule = `every user of the machine could read it; put it under ${field} into --config FILE`
        throw new UsageError(`${flag} ${name}: ${rule}`)
      }
      return [name, pair.slice(sign + 1)]
    }),
  )
}
