import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, ownedObject } from './place.ts'

/**
 * Returns the identity of the replicas, which has no rights. No replica calls the API server, so none has a
 * token.
 */
export function makeServiceAccount(ingredients: Ingredients): KubeObject {
  return ownedObject(ingredients, {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    automountServiceAccountToken: false,
  })
}
