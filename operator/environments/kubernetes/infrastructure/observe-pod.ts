import { isIPv6 } from 'node:net'
import { isObject } from '@tollway/chassis/is-object.ts'
import { settingsExitCode } from '@tollway/chassis/settings.ts'
import type { Obstacle, Replica } from '../../../infrastructure/provider.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { printableLine } from './backend-poll.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * Returns the replicas of the pods of a workload that run or should run, the oldest first: without deleted
 * ones, and without those that have ended for good and were replaced.
 */
export function observePods(pods: readonly KubeObject[]): readonly Replica[] {
  return pods
    .filter(({ metadata, status }) => metadata.deletionTimestamp === undefined && !hasEnded(status))
    .sort((a, b) => (ageKey(a) < ageKey(b) ? -1 : 1))
    .map(observePod)
}

function hasEnded(status: unknown): boolean {
  return ['Succeeded', 'Failed'].includes(textOf(fields(status)['phase']))
}

function ageKey({ metadata }: KubeObject): string {
  return `${metadata['creationTimestamp']} ${metadata.name}`
}

function observePod(pod: KubeObject): Replica {
  const status = fields(pod['status'])
  const ready = conditionOf(status, 'Ready')['status'] === 'True'
  const obstacle = ready ? undefined : obstacleOf(pod, containerOf(status))
  const restarts = containerOf(status)['restartCount']
  return {
    name: pod.metadata.name,
    uid: pod.metadata.uid ?? '',
    ready,
    reason: ready ? '' : (obstacle?.cause ?? reasonOf(pod, status)),
    restarts: typeof restarts === 'number' ? restarts : 0,
    ...(obstacle && { obstacle }),
    addresses: addressesOf(pod, textOf(status['podIP'])),
  }
}

/** Returns the first cause why a pod is not ready. */
function reasonOf(pod: KubeObject, status: Fields): string {
  const scheduled = conditionOf(status, 'PodScheduled')
  if (scheduled['status'] === 'False') return `no node takes it: ${textOf(scheduled['message'])}`
  const container = containerOf(status)
  const { waiting, terminated, running } = fields(container['state'])
  if (isObject(waiting)) return waitingReason(waiting, container)
  if (isObject(terminated)) return ended(terminated)
  if (!isObject(running) || container['started'] !== true) return 'starting'
  if (container['ready'] === true) return `not ready: ${textOf(conditionOf(status, 'Ready')['message'])}`
  return `not ready: ${probeText(pod)}`
}

/**
 * Returns the cause for which a container does not start until a person changes something. Whether a missing
 * Secret or image appears by itself within seconds is for the caller to wait for.
 */
function obstacleOf(pod: KubeObject, container: Fields): Obstacle | undefined {
  const { waiting, terminated, running } = fields(container['state'])
  const reason = textOf(fields(waiting)['reason'])
  const message = textOf(fields(waiting)['message'])
  switch (reason) {
    case 'ErrImagePull':
    case 'ImagePullBackOff':
    case 'ErrImageNeverPull':
    case 'InvalidImageName':
      return pullObstacle(container, reason, message)
    case 'CreateContainerConfigError':
      return { of: 'pod', cause: `${reason}: ${message}` }
  }
  // A single failure may be one of the first seconds of an installation.
  if (running !== undefined || container['restartCount'] === 0) return undefined
  const last = isObject(terminated) ? terminated : fields(fields(container['lastState'])['terminated'])
  return settingsObstacle(pod, textOf(container['name']), last)
}

/** What another attempt does not change: the name of the image, its registry, or the permission to read it. */
const finalPullError =
  /not found|no such host|denied|unauthori[sz]ed|authorization failed|no match for platform/i

function pullObstacle(container: Fields, reason: string, message: string): Obstacle {
  const error = printableLine(message.replace(/^.*image "[^"]*"(: )?/, ''))
  const cause = `the image ${textOf(container['image'])} cannot be pulled: ${error || reason}`
  const isFinal = !/^(ErrImagePull|ImagePullBackOff)$/.test(reason) || finalPullError.test(message)
  if (isFinal) return { of: 'image', cause }
  return { of: 'image', cause, attempt: reason === 'ErrImagePull' ? 'failed' : 'waiting' }
}

const missingFile = 'ENOENT'

/** A service ends with a line for each setting that it rejects, and for each file that it cannot read. */
function settingsObstacle(pod: KubeObject, name: string, ended: Fields): Obstacle | undefined {
  const lines = textOf(ended['message']).trim().split('\n')
  const container = containersOf(pod).find(one => one['name'] === name) ?? {}
  const rejectsSettings = ended['exitCode'] === settingsExitCode
  // The last lines of any other end can be about a file that was only read again.
  for (const line of lines.filter(line => rejectsSettings || line.includes(missingFile))) {
    const file = secretFile(pod, container, line)
    if (file !== undefined) return file
  }
  if (!rejectsSettings) return undefined
  return { of: 'settings', cause: printableLine(lines.at(-1) ?? '') || 'it rejects its settings' }
}

/** Returns the obstacle of a line about a setting whose file is a key of a Secret: `NAME: problem`. */
function secretFile(pod: KubeObject, container: Fields, line: string): Obstacle | undefined {
  for (const env of listOf(container['env']).map(fields)) {
    const [setting, path] = [textOf(env['name']), textOf(env['value'])]
    const about = line.indexOf(`${setting}: `)
    if (setting === '' || about < 0 || /\w/.test(line[about - 1] ?? '')) continue
    const mount = listOf(container['volumeMounts'])
      .map(fields)
      .find(({ mountPath }) => path.startsWith(`${textOf(mountPath)}/`))
    const volume = listOf(fields(pod['spec'])['volumes'])
      .map(fields)
      .find(({ name }) => mount !== undefined && name === mount['name'])
    const secret = textOf(fields(volume?.['secret'])['secretName'])
    if (secret === '') continue
    const key = path.slice(textOf(mount?.['mountPath']).length + 1)
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
  const reason = textOf(waiting['reason'])
  const message = textOf(waiting['message'])
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
 * Returns the reason for people. The message of the kubelet has the length of the wait, which begins at the
 * end of the container.
 */
function crashReason(message: string, container: Fields): string {
  const last = fields(fields(container['lastState'])['terminated'])
  const finishedMs = Date.parse(textOf(last['finishedAt']))
  const waitMs = durationMs(/back-off ([0-9hms.]+) restarting/.exec(message)?.[1] ?? '')
  const again = finishedMs + waitMs
  if (Number.isNaN(again)) return `${ended(last)}, again after a wait`
  return `${ended(last)}, again at ${new Date(again).toISOString().replace('.000', '')}`
}

function ended(terminated: Fields): string {
  const { exitCode, reason } = terminated
  const why = textOf(reason)
  const cause = why === '' || why === 'Error' || why === 'Completed' ? '' : ` (${why})`
  return `exited with code ${typeof exitCode === 'number' ? exitCode : 'unknown'}${cause}`
}

/** Returns the milliseconds of a duration of Go, such as `1m20s`; NaN for any other text. */
function durationMs(text: string): number {
  const [, hours = 0, minutes = 0, seconds = 0] =
    /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?$/.exec(text) ?? []
  if (text === '') return Number.NaN
  return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000
}

function probeText({ spec }: KubeObject): string {
  const { httpGet } = fields(fields(firstOf(fields(spec)['containers']))['readinessProbe'])
  if (!isObject(httpGet)) return 'its readiness probe fails'
  return `GET ${httpGet['path']} on the port ${httpGet['port']} is not answered with 200`
}

/** Returns the addresses for people. gRPC has no page, so it has no link. */
function addressesOf({ spec }: KubeObject, ip: string): Readonly<Record<string, string>> {
  const { ports } = fields(firstOf(fields(spec)['containers']))
  if (ip === '' || !Array.isArray(ports)) return {}
  const host = isIPv6(ip) ? `[${ip}]` : ip
  return Object.fromEntries(
    ports.filter(isObject).map(({ name, containerPort }) => {
      return [name, `${name === 'grpc' ? '' : 'http://'}${host}:${containerPort}`]
    }),
  )
}

/** A pod of Tollway has one container; injected containers come after it. */
/** Returns the first container that is not ready, init containers first; else the first container. */
function containerOf(status: Fields): Fields {
  const containers = listOf(status['containerStatuses'])
  const all = [...listOf(status['initContainerStatuses']), ...containers]
  return fields(all.find(container => fields(container)['ready'] !== true) ?? containers[0])
}

function conditionOf(status: Fields, type: string): Fields {
  const { conditions } = status
  return fields(Array.isArray(conditions) ? conditions.find(one => fields(one)['type'] === type) : undefined)
}

function containersOf({ spec }: KubeObject): readonly Fields[] {
  const { initContainers, containers } = fields(spec)
  return [...listOf(initContainers), ...listOf(containers)].map(fields)
}

function firstOf(list: unknown): unknown {
  return listOf(list)[0]
}

function listOf(found: unknown): readonly unknown[] {
  return Array.isArray(found) ? found : []
}

function fields(value: unknown): Fields {
  return isObject(value) ? value : {}
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
