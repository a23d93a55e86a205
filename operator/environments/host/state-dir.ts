/** The folder where an operator on this machine keeps its state, unless another is named. */
export const defaultStateDir = '.tollway'
