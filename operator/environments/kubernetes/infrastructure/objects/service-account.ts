import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, ownedObject } from './place.ts'

/** An identity of its own that may do nothing: no replica calls the API server, so none has a token. */
export function makeServiceAccount(ingredients: Ingredients): KubeObject {
  return ownedObject(ingredients, {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    automountServiceAccountToken: false,
  })
}
