/** The method of a `Module` that lists its layers. A symbol, because users' modules may have a property of any name. */
export const allLayers: unique symbol = Symbol('allLayers');
