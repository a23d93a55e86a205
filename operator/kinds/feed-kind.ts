import type { StreamLoads } from '../pods/stream-loads.ts'
import type { RouteSecrets } from './animation-stream-route/route-secrets.ts'
import type { KindAdapter, KindColumns, Named } from './kind-adapter.ts'
import type { Reservations } from './rate-limit-config/rate-limit-config.ts'

/** The parts of an operator that kinds use beside their resources. */
export interface KindContext {
  /** The namespaces that may use a domain, by its name. */
  readonly domainGrants?: Reservations | undefined
  /** The tokens and keys that routes name. */
  readonly routeSecrets: RouteSecrets
  readonly loads: Pick<StreamLoads, 'of' | 'onChange'>
}

/** The entry in the registry of a kind whose contents the feed carries. */
export interface FeedKind<Content extends Named, Fed>
  extends Pick<KindAdapter<Content, Fed>, 'definition' | 'isContent'> {
  /** The columns in tables of resources. */
  readonly columns: KindColumns
  open(context: KindContext): KindAdapter<Content, Fed>
}
