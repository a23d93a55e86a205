import { isIPv6 } from 'node:net'
import { fileURLToPath } from 'node:url'
import { type ServiceName, serviceNames, type Workload } from '../../model.ts'
import { services } from '../../workloads/registry.ts'
import type { HostFacts } from '../../workloads/service.ts'
import { type OperatorConfig, toFlag } from './operator-config.ts'
import type { ReplicaCommand } from './processes/launch-child.ts'

interface HostWorkloadsOptions extends Pick<HostFacts, 'feedAddress' | 'stateDir' | 'provisionTokenFile'> {
  readonly redisUrlFile: string
}

export function hostWorkloads(config: OperatorConfig, options: HostWorkloadsOptions): readonly Workload[] {
  const { redisUrlFile: urlFile, ...facts } = options
  const rateLimitAddress = `${reachableHost(config.host)}:${config.grpcPort}`
  return enabledServices(config).map(name => {
    const { onHost } = services[name]
    const sharedState = onHost.sharesRedis(config)
      ? ({ type: 'redis', urlFile } as const)
      : ({ type: 'memory' } as const)
    return onHost.workload(config, { ...facts, rateLimitAddress, sharedState })
  })
}

function enabledServices(config: OperatorConfig): readonly ServiceName[] {
  return serviceNames.filter(name => services[name].onHost.processes(config) > 0)
}

export function redisUsers(config: OperatorConfig): readonly ServiceName[] {
  return enabledServices(config).filter(name => services[name].onHost.sharesRedis(config))
}

/** Returns why no process runs for the workload; undefined if one runs. */
export function explainDisabledOnHost(config: OperatorConfig, workload: string): string | undefined {
  const { onHost } = services[workload as ServiceName]
  return onHost.processes(config) > 0 ? undefined : `No process is to enforce it: ${onHost.offBy}`
}

export function commandFor(service: ServiceName): ReplicaCommand {
  const { main, options, env = {} } = services[service].onHost.program
  return { command: process.execPath, args: [...options, fileURLToPath(main)], env }
}

/** Returns how to choose another port: `choose another one with --grpc-port PORT`. */
export function portAdvice(portName: string, service: ServiceName): string {
  return adviceForPort(services[service].onHost.portFields[portName] ?? '')
}

/** Returns how to choose another port for a field of the configuration. */
export function adviceForPort(field: string): string {
  return `choose another one with ${option(`${toFlag(field)} PORT`)}`
}

/** Returns an option as the user must write it: for `make run` if the operator was started that way. */
export function option(text: string): string {
  return process.env['MAKELEVEL'] ? `ARGS='${text}'` : text
}

/** Returns the addresses of the services for callers, by their names in the status report. */
export function serviceAddresses(config: OperatorConfig): Readonly<Record<string, string>> {
  const addresses = enabledServices(config).map(name =>
    services[name].onHost.addresses(config, shownHost(config.host)),
  )
  return Object.assign({}, ...addresses)
}

export function firstReadyMs(config: OperatorConfig): number {
  return Math.max(...enabledServices(config).map(name => services[name].onHost.firstReadyMs))
}

export function shownHost(address: string): string {
  return isIPv6(address) ? `[${address}]` : address
}

/** Returns the host by which a process on this machine reaches a server that listens on this address. */
function reachableHost(host: string): string {
  return host === '0.0.0.0' || host === '::' ? '127.0.0.1' : shownHost(host)
}
