;;; lsp-mode.el --- drives lsp-mode over the server in batch mode  -*- lexical-binding: t -*-
;; Usage: emacs --batch -l lsp-mode.el SERVER FILE. Prints the candidates at the end of the line `x = ', then the file
;; after the first quick fix in its second line.
(package-initialize)
(require 'lsp-mode)
(require 'lsp-completion)
(require 'python)

(defun wait-until (so)
  "Serve processes until SO returns something."
  (with-timeout (90 (error "Still not so: %S" so))
    (while (not (funcall so))
      (accept-process-output nil 0.1))))

(let ((server (pop command-line-args-left))
      (file (pop command-line-args-left)))
  (setq lsp-session-file (expand-file-name "session" (file-name-directory file))
        lsp-enable-snippet nil
        lsp-enable-suggest-server-download nil)
  (lsp-register-client
   (make-lsp-client :new-connection (lsp-stdio-connection (list server))
                    :activation-fn (lsp-activate-on "python")
                    :add-on? t
                    :server-id 'mercury))
  (lsp-workspace-folders-add (file-name-directory file))
  (find-file file)
  (python-mode)
  (lsp)
  (wait-until (lambda () (lsp-feature? "textDocument/completion")))
  (goto-char (point-max))
  (insert "x = ")
  (let ((all (all-completions "" (nth 2 (lsp-completion-at-point)))))
    (princ (format "candidates %S\n" (mapcar #'substring-no-properties all))))
  (goto-char (point-min))
  (forward-line 1)
  (end-of-line)
  (let ((actions (append (lsp-code-actions-at-point) nil)))
    (princ (format "actions %S\n" (mapcar #'lsp:code-action-title actions)))
    (lsp-execute-code-action (car actions)))
  (wait-until (lambda () (save-excursion (goto-char (point-min)) (search-forward "(values):" nil t))))
  (princ (buffer-substring-no-properties (point-min) (point-max))))
