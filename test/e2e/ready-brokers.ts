import { eventually, isReady, type Pod, pods } from './cluster.ts'
import type { ChooseBroker } from './streams-load.ts'

export const brokers = 'app.kubernetes.io/name=broker'
const grpcPort = 8082

export async function readyBrokers(namespace: string): Promise<readonly Pod[]> {
  return (await pods(namespace, brokers)).filter(isReady)
}

export const formatAddress = ({ status }: Pod) => `${status.podIP}:${grpcPort}`

export interface FollowedBrokers {
  /** Each call chooses another ready broker. */
  readonly next: ChooseBroker
  /** Chooses this broker while it takes calls. */
  preferring(address: string): ChooseBroker
  start(): void
  stop(): Promise<void>
}

/** Follows which brokers take calls, as a client that looks up their name does. */
export function followReadyBrokers(namespace: string): FollowedBrokers {
  let addresses: readonly string[] = []
  let calls = 0
  let following = Promise.resolve()
  let stopped = false

  async function follow(): Promise<void> {
    while (!stopped) addresses = (await readyBrokers(namespace)).map(formatAddress)
  }

  const next: ChooseBroker = async () => {
    await eventually('a broker that takes calls', async () => addresses.length > 0)
    calls += 1
    return addresses[calls % addresses.length] ?? ''
  }
  return {
    next,
    preferring: address => async () => (addresses.includes(address) ? address : next()),
    start() {
      following = follow()
    },
    async stop() {
      stopped = true
      await following
    },
  }
}
