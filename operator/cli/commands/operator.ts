import { type Command, exitCodes, UsageError } from '@tollway/chassis/command-line/command.ts'
import { aFile, choice, textOr } from '@tollway/chassis/command-line/option.ts'
import { parseOptions } from '@tollway/chassis/command-line/parse-options.ts'
import { runUntilStopped } from '@tollway/chassis/lifecycle.ts'
import { createLog, type Log } from '@tollway/chassis/log/log.ts'
import { logStrayOutput } from '@tollway/chassis/log/log-stray-output.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import { accessFromEnvironment } from '../../environments/kubernetes/api/access.ts'
import { readClusterConfig } from '../../environments/kubernetes/read-cluster-config.ts'
import { type OwnPod, startInCluster } from '../../environments/kubernetes/start.ts'
import { InfrastructureError } from '../../infrastructure/provider.ts'

const defaultConfig = '/etc/tollway/operator.yaml'

const options = {
  config: textOr(defaultConfig, {
    placeholder: 'FILE',
    help: 'the configuration file, with the fields of the values of the chart',
    completion: aFile,
  }),
  'log-format': choice(['json', 'text'], {
    placeholder: 'FORMAT',
    help: 'the format of log lines: json or text',
  }),
}

export const operatorCommand: Command = {
  name: 'operator',
  summary: 'run the operator in a cluster',
  options,
  help: {
    usage: ['[--config FILE] [--log-format text|json]'],
    description: `\
Watches the custom resources of a Kubernetes cluster, runs the services that enforce them, and serves their
feed. The chart charts/tollway runs it. All operators serve the feed, and one of them is the leader.`,
    remarks: `\
It connects to the API server by KUBECONFIG, the service account of its pod, or ~/.kube/config, in this order.
POD_NAME, POD_NAMESPACE and POD_IP must describe its own pod. REVISION identifies the release of the chart in
its reports and Deployments.`,
    exitCodes: '0 after a signal, 2 when it could not start.',
    examples: [
      'tollway operator',
      'POD_NAME=me POD_NAMESPACE=tollway POD_IP=10.0.0.1 tollway operator --config operator.yaml --log-format text',
    ],
  },
  async run(args, output) {
    const { values } = parseOptions(args, options)
    const format = values['log-format']
    const config = readConfig(values.config)
    const pod = readPod(process.env)
    const log = createLog({ level: config.logLevel, format })
    logStrayOutput(log)
    const starting = startInCluster({ config, pod, log, access: await accessFromEnvironment(process.env) })
    stopOnSignal(starting, log)
    try {
      await starting
      return await untilStopped
    } catch (error) {
      if (!(error instanceof InfrastructureError)) throw error
      output.printError(`tollway operator: ${error.message}\n`)
      return exitCodes.failed
    }
  },
}

/** Never resolves: the handler of the signal ends the process. */
const untilStopped = new Promise<never>(() => {})

function readConfig(path: string): ClusterConfig {
  const read = readClusterConfig(path)
  if ('value' in read) return read.value
  throw new Error(`--config ${path}: ${read.problems.join('\n  ')}`)
}

function readPod(env: NodeJS.ProcessEnv): OwnPod {
  const [name = '', namespace = '', ip = ''] = ['POD_NAME', 'POD_NAMESPACE', 'POD_IP'].map(variable => {
    const value = env[variable] ?? ''
    if (value === '')
      throw new UsageError(`${variable} must be set; the chart sets it from the fields of the pod`)
    return value
  })
  const revision = env['REVISION'] ?? ''
  return { name, namespace, ip, revision, host: ip.includes(':') ? '::' : '0.0.0.0' }
}

function stopOnSignal(starting: ReturnType<typeof startInCluster>, log: Log): void {
  runUntilStopped({
    async stop(reason) {
      log.info('stop operator', { reason })
      // A failed start has stopped its parts.
      const running = await starting.catch(() => undefined)
      await running?.stop()
    },
    forceShutdown: () => process.exit(exitCodes.failed),
    onFatal: error => log.error('run operator failed', { error: (error as Error).stack ?? `${error}` }),
  })
}
