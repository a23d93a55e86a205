import { clusterOptions, clusterValuesOf } from '../cluster/cluster-options.ts'
import { Bundle } from '../collect/bundle.ts'
import { collectFromCluster } from '../collect/collect-from-cluster.ts'
import type { SourceOf } from '../source-of-command.ts'
import { withCluster } from './cluster-sources.ts'

/** The support bundle of a cluster, as far as the user's rights go. */
export const clusterBundle: SourceOf<Bundle> = {
  options: clusterOptions,
  open: values =>
    withCluster(values, async cluster => {
      const { namespace, 'tollway-namespace': tollwayNamespace } = clusterValuesOf(values)
      const bundle = new Bundle(await tokenOf(cluster))
      await collectFromCluster(cluster, bundle, { namespace, tollwayNamespace })
      return bundle
    }),
}

async function tokenOf(cluster: { token(): Promise<string | undefined> }): Promise<readonly string[]> {
  const token = await cluster.token()
  return token === undefined ? [] : [token]
}
