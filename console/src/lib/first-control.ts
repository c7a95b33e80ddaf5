// Where the keyboard begins.

/**
 * An action: the keyboard begins at this control. Controls of a dialog exist before the dialog is shown, and cannot have
 * the keyboard until then: without the attribute, it would get to the first control, which closes the dialog.
 */
export function firstControl(element: HTMLElement): void {
  element.autofocus = true;
  element.focus();
}
