import { isIPv6 } from 'node:net'
import { isObject } from '@tollway/chassis/is-object.ts'
import { settingsExitCode } from '@tollway/chassis/settings.ts'
import type { Replica, ReplicaObstacle } from '../../../infrastructure/provider.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { printableLine } from './backend-poll.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * Returns the replicas for the pods of a workload, oldest first. Leaves out pods that are being deleted, and
 * pods that have ended and will not run again.
 */
export function observePods(pods: readonly KubeObject[]): readonly Replica[] {
  return pods
    .filter(({ metadata, status }) => metadata.deletionTimestamp === undefined && !hasEnded(status))
    .sort((a, b) => (ageKey(a) < ageKey(b) ? -1 : 1))
    .map(observePod)
}

function hasEnded(status: unknown): boolean {
  return ['Succeeded', 'Failed'].includes(asText(asFields(status)['phase']))
}

function ageKey({ metadata }: KubeObject): string {
  return `${metadata['creationTimestamp']} ${metadata.name}`
}

function observePod(pod: KubeObject): Replica {
  const status = asFields(pod['status'])
  const ready = findPodCondition(status, 'Ready')['status'] === 'True'
  const obstacle = ready ? undefined : findObstacle(pod, selectContainer(status))
  const restarts = selectContainer(status)['restartCount']
  return {
    name: pod.metadata.name,
    uid: pod.metadata.uid ?? '',
    ready,
    reason: ready ? '' : (obstacle?.cause ?? explainNotReady(pod, status)),
    restarts: typeof restarts === 'number' ? restarts : 0,
    ...(obstacle && { obstacle }),
    addresses: formatAddresses(pod, asText(status['podIP'])),
  }
}

function explainNotReady(pod: KubeObject, status: Fields): string {
  const scheduled = findPodCondition(status, 'PodScheduled')
  if (scheduled['status'] === 'False') return `no node takes it: ${asText(scheduled['message'])}`
  const container = selectContainer(status)
  const { waiting, terminated, running } = asFields(container['state'])
  if (isObject(waiting)) return waitingReason(waiting, container)
  if (isObject(terminated)) return describeEnd(terminated)
  if (!isObject(running) || container['started'] !== true) return 'starting'
  if (container['ready'] === true) return `not ready: ${asText(findPodCondition(status, 'Ready')['message'])}`
  return `not ready: ${probeText(pod)}`
}

/**
 * Returns why a container does not start until a person changes something. A missing Secret or image may
 * still appear within seconds; the caller decides how long to wait for it.
 */
function findObstacle(pod: KubeObject, container: Fields): ReplicaObstacle | undefined {
  const { waiting, terminated, running } = asFields(container['state'])
  const reason = asText(asFields(waiting)['reason'])
  const message = asText(asFields(waiting)['message'])
  switch (reason) {
    case 'ErrImagePull':
    case 'ImagePullBackOff':
    case 'ErrImageNeverPull':
    case 'InvalidImageName':
      return pullObstacle(container, reason, message)
    case 'CreateContainerConfigError':
      return { of: 'pod', cause: `${reason}: ${message}` }
  }
  // A container that runs, or failed only once, has no obstacle: the first failure may be one of an
  // installation that is not complete yet.
  if (running !== undefined || container['restartCount'] === 0) return undefined
  const last = isObject(terminated) ? terminated : asFields(asFields(container['lastState'])['terminated'])
  return settingsObstacle(pod, asText(container['name']), last)
}

/**
 * Matches errors of a pull that another attempt does not remove: a wrong name of the image or registry, or a
 * missing right.
 */
const finalPullError =
  /not found|no such host|denied|unauthori[sz]ed|authorization failed|no match for platform/i

function pullObstacle(container: Fields, reason: string, message: string): ReplicaObstacle {
  const error = printableLine(message.replace(/^.*image "[^"]*"(: )?/, ''))
  const cause = `the image ${asText(container['image'])} cannot be pulled: ${error || reason}`
  const isFinal = !/^(ErrImagePull|ImagePullBackOff)$/.test(reason) || finalPullError.test(message)
  if (isFinal) return { of: 'image', cause }
  return { of: 'image', cause, attempt: reason === 'ErrImagePull' ? 'failed' : 'waiting' }
}

const missingFile = 'ENOENT'

/**
 * Reads the obstacle from the last lines of a container. A service ends with one line for each setting that
 * it rejects and each file that it cannot read.
 */
function settingsObstacle(pod: KubeObject, name: string, ended: Fields): ReplicaObstacle | undefined {
  const lines = asText(ended['message']).trim().split('\n')
  const container = listContainers(pod).find(one => one['name'] === name) ?? {}
  const rejectsSettings = ended['exitCode'] === settingsExitCode
  // After any other exit code, a line may be about a file that was only read again.
  for (const line of lines.filter(line => rejectsSettings || line.includes(missingFile))) {
    const file = secretFile(pod, container, line)
    if (file !== undefined) return file
  }
  if (!rejectsSettings) return undefined
  return { of: 'settings', cause: printableLine(lines.at(-1) ?? '') || 'it rejects its settings' }
}

/**
 * Returns the obstacle for a line `NAME: problem` if the setting NAME names a file that is a key of a mounted
 * Secret.
 */
function secretFile(pod: KubeObject, container: Fields, line: string): ReplicaObstacle | undefined {
  for (const env of asList(container['env']).map(asFields)) {
    const [setting, path] = [asText(env['name']), asText(env['value'])]
    const about = line.indexOf(`${setting}: `)
    if (setting === '' || about < 0 || /\w/.test(line[about - 1] ?? '')) continue
    const mount = asList(container['volumeMounts'])
      .map(asFields)
      .find(({ mountPath }) => path.startsWith(`${asText(mountPath)}/`))
    const volume = asList(asFields(pod['spec'])['volumes'])
      .map(asFields)
      .find(({ name }) => mount !== undefined && name === mount['name'])
    const secret = asText(asFields(volume?.['secret'])['secretName'])
    if (secret === '') continue
    const key = path.slice(asText(mount?.['mountPath']).length + 1)
    const isMissing = line.includes(missingFile)
    const problem = printableLine(line.slice(about))
    const cause = isMissing
      ? `there is no Secret ${secret} with the key ${key}`
      : `the key ${key} of the Secret ${secret} is not allowed: ${problem}`
    return { of: 'secret', secret, cause }
  }
  return undefined
}

function waitingReason(waiting: Fields, container: Fields): string {
  const reason = asText(waiting['reason'])
  const message = asText(waiting['message'])
  const said = message === '' ? '' : `: ${message}`
  switch (reason) {
    case '':
    case 'ContainerCreating':
    case 'PodInitializing':
      return 'starting'
    case 'CrashLoopBackOff':
      return crashReason(message, container)
    default:
      return `${reason}${said}`
  }
}

/**
 * Describes a crash with the time of the next start. The kubelet's message has the length of the wait, which
 * starts at the end of the container.
 */
function crashReason(message: string, container: Fields): string {
  const last = asFields(asFields(container['lastState'])['terminated'])
  const finishedMs = Date.parse(asText(last['finishedAt']))
  const waitMs = durationMs(/back-off ([0-9hms.]+) restarting/.exec(message)?.[1] ?? '')
  const again = finishedMs + waitMs
  if (Number.isNaN(again)) return `${describeEnd(last)}, again after a wait`
  return `${describeEnd(last)}, again at ${new Date(again).toISOString().replace('.000', '')}`
}

function describeEnd(terminated: Fields): string {
  const { exitCode, reason } = terminated
  const why = asText(reason)
  const cause = why === '' || why === 'Error' || why === 'Completed' ? '' : ` (${why})`
  return `exited with code ${typeof exitCode === 'number' ? exitCode : 'unknown'}${cause}`
}

/** Returns the milliseconds of a Go duration such as `1m20s`; NaN for any other text. */
function durationMs(text: string): number {
  const [, hours = 0, minutes = 0, seconds = 0] =
    /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?$/.exec(text) ?? []
  if (text === '') return Number.NaN
  return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000
}

function probeText({ spec }: KubeObject): string {
  const { httpGet } = asFields(asFields(firstItem(asFields(spec)['containers']))['readinessProbe'])
  if (!isObject(httpGet)) return 'its readiness probe fails'
  return `GET ${httpGet['path']} on the port ${httpGet['port']} is not answered with 200`
}

/** Returns the addresses by port name, for people. The gRPC port has no page, so its address is no URL. */
function formatAddresses({ spec }: KubeObject, ip: string): Readonly<Record<string, string>> {
  const { ports } = asFields(firstItem(asFields(spec)['containers']))
  if (ip === '' || !Array.isArray(ports)) return {}
  const host = isIPv6(ip) ? `[${ip}]` : ip
  return Object.fromEntries(
    ports.filter(isObject).map(({ name, containerPort }) => {
      return [name, `${name === 'grpc' ? '' : 'http://'}${host}:${containerPort}`]
    }),
  )
}

/**
 * Returns the status of the first container that is not ready, init containers first; otherwise of the first
 * container.
 */
function selectContainer(status: Fields): Fields {
  const containers = asList(status['containerStatuses'])
  const all = [...asList(status['initContainerStatuses']), ...containers]
  return asFields(all.find(container => asFields(container)['ready'] !== true) ?? containers[0])
}

function findPodCondition(status: Fields, type: string): Fields {
  const { conditions } = status
  return asFields(
    Array.isArray(conditions) ? conditions.find(one => asFields(one)['type'] === type) : undefined,
  )
}

function listContainers({ spec }: KubeObject): readonly Fields[] {
  const { initContainers, containers } = asFields(spec)
  return [...asList(initContainers), ...asList(containers)].map(asFields)
}

function firstItem(list: unknown): unknown {
  return asList(list)[0]
}

function asList(found: unknown): readonly unknown[] {
  return Array.isArray(found) ? found : []
}

function asFields(value: unknown): Fields {
  return isObject(value) ? value : {}
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
