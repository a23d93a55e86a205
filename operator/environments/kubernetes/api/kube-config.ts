import { KubeConfig } from '@kubernetes/client-node'

/**
 * The library's reader of kubeconfig files. It is the only thing that is taken from the library, and is
 * imported by its name here, so that a bundle leaves the models of every kind out, which are most of it.
 */
export function createKubeConfig(): KubeConfig {
  return new KubeConfig()
}
