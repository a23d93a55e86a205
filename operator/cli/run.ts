import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { runUntilStopped } from '@tollway/chassis/lifecycle.ts'
import { InfrastructureError } from '../infrastructure/provider.ts'
import { startStandalone } from '../main.ts'
import {
  defaultOperatorConfig,
  judgeOperatorConfig,
  type OperatorConfig,
  parseOperatorConfig,
} from '../standalone/operator-config.ts'
import { type Command, exitCodes, UsageError } from './command.ts'
import { parseOptions } from './options.ts'
import { defaultStateDir } from './read-folder.ts'

const flags = {
  replicas: 'replicas',
  'redis-url': 'redisUrl',
  host: 'host',
  'grpc-port': 'grpcPort',
  'http-port': 'httpPort',
  'debug-port': 'debugPort',
  'metrics-port': 'metricsPort',
  'feed-port': 'feedPort',
  'operator-port': 'operatorPort',
  'log-level': 'logLevel',
} as const satisfies Record<string, keyof OperatorConfig>

export const run: Command = {
  name: 'run',
  summary: 'enforce a folder of manifests on this machine',
  help: `Usage: tollway run -f FOLDER [OPTIONS]

Watches the manifests below FOLDER and enforces them with rate limit processes that it starts, on this machine,
without Kubernetes. Ends all of them on Ctrl-C.

  -f, --file FOLDER       the manifests
  --replicas N            rate limit processes (default ${defaultOperatorConfig.replicas}); more than one share their counters in Redis
  --redis-url URL         host:port, a unix socket's path or redis://…; without it a redis-server on the PATH is started
  --host ADDRESS          where calls are taken (default ${defaultOperatorConfig.host})
  --grpc-port PORT        rate limit calls by gRPC (default ${defaultOperatorConfig.grpcPort})
  --http-port PORT        rate limit calls by HTTP (default ${defaultOperatorConfig.httpPort})
  --debug-port PORT       debug pages of the first process, on loopback (default ${defaultOperatorConfig.debugPort})
  --metrics-port PORT     metrics of the first process, on loopback (default ${defaultOperatorConfig.metricsPort})
  --feed-port PORT        the feed, on loopback (default ${defaultOperatorConfig.feedPort})
  --operator-port PORT    the operator's own pages, on loopback (default ${defaultOperatorConfig.operatorPort})
  --env NAME=VALUE        a setting of the rate limit service; again for another one
  --log-level LEVEL       debug, info, warn or error (default ${defaultOperatorConfig.logLevel})
  --state-dir DIR         what outlives a restart, and the logs (default ${defaultStateDir})
  --config FILE           all of these as YAML: replicas, redisUrl, grpcPort, …, rateLimitEnv: {NAME: VALUE}

Exit code: 0 when it was told to end, 2 when it could not start.

Examples:
  tollway run -f examples/quickstart
  tollway run -f limits --replicas 3 --redis-url localhost:6379
  tollway run -f limits --env SHADOW_MODE=true --env NEAR_LIMIT_RATIO=0.9
`,
  async run(args, output) {
    const { folder, stateDir, config } = readOptions(args)
    try {
      const standalone = await startStandalone({ folder, stateDir, config, print: output.print })
      runUntilStopped({
        stop: async reason => {
          output.printError(`\nending every process (${reason})\n`)
          await standalone.stop()
        },
        onFatal: error => output.printError(`tollway run: ended by a defect: ${(error as Error).stack}\n`),
      })
      return await new Promise(() => {})
    } catch (error) {
      if (!(error instanceof InfrastructureError)) throw error
      output.printError(`tollway run: ${error.message}\n`)
      return exitCodes.failed
    }
  },
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
    'metrics-port': text,
    'feed-port': text,
    'operator-port': text,
    'log-level': text,
  })
  if (values.file === undefined) throw new UsageError('name the folder of manifests with -f')
  if (!existsSync(values.file)) throw new UsageError(`${values.file}: no such file or folder`)
  if (values['redis-url']?.includes('@')) {
    throw new UsageError(
      '--redis-url: every user of the machine could read the password; put redisUrl into --config FILE',
    )
  }
  const fromFile = values.config === undefined ? defaultOperatorConfig : readConfigFile(values.config)
  const given: Record<string, unknown> = { ...fromFile }
  for (const [flag, field] of Object.entries(flags)) {
    const value = values[flag as keyof typeof flags]
    if (value !== undefined) given[field] = value
  }
  given['rateLimitEnv'] = { ...fromFile.rateLimitEnv, ...parseEnv(values.env ?? []) }
  const judged = judgeOperatorConfig(given)
  if ('problems' in judged) throw new UsageError(judged.problems.join('; '))
  return { folder: resolve(values.file), stateDir: resolve(values['state-dir']), config: judged.value }
}

function readConfigFile(path: string): OperatorConfig {
  if (!existsSync(path)) throw new UsageError(`--config ${path}: no such file`)
  const parsed = parseOperatorConfig(readFileSync(path, 'utf8'))
  if ('problems' in parsed)
    throw new UsageError(parsed.problems.map(problem => `${path}: ${problem}`).join('; '))
  return parsed.value
}

function parseEnv(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map(pair => {
      const sign = pair.indexOf('=')
      if (sign < 1) throw new UsageError(`--env ${pair}: is not NAME=VALUE`)
      return [pair.slice(0, sign), pair.slice(sign + 1)]
    }),
  )
}
